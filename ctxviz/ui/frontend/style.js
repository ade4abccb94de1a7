// Style sheets of this package, fetched once each.

const sheets = new Map();

async function load(name) {
  const answer = await fetch(new URL(name, import.meta.url));
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(await answer.text());
  return sheet;
}

// Apply a sheet to a shadow root or to the document that holds `root`.
export async function dress(root, name) {
  if (!sheets.has(name)) sheets.set(name, load(name));
  const sheet = await sheets.get(name);
  const scope = root.getRootNode();
  // A figure taken off the page meanwhile has no such scope.
  if (!scope.adoptedStyleSheets) return;
  if (!scope.adoptedStyleSheets.includes(sheet)) scope.adoptedStyleSheets.push(sheet);
}
