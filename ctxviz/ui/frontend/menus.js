// Small buttons of a figure, and the menu of what it can be saved as.

import { el } from "./look.js";
import { download } from "./save.js";

const TYPES = { svg: "image/svg+xml", png: "image/png", csv: "text/csv;charset=utf-8" };

export function iconButton(words, face, act) {
  const button = el("button", { type: "button", class: "tool", title: words, "aria-label": words }, face);
  button.addEventListener("click", act);
  return button;
}

// `files` makes each file's contents when it is asked for: { svg, png, csv }; a PNG can be copied too.
export function fileMenu(what, name, files) {
  const said = el("span", { class: "saved", role: "status" });
  const menu = el("div", { class: "menu" });
  const box = el("details", { class: "files" }, el("summary", { class: "tool", title: `Save ${what}` }, "Save"), menu);
  const attempt = async (act) => {
    said.textContent = "";
    try {
      await act();
      box.open = false;
    } catch {
      said.textContent = "The file could not be made; try again.";
    }
  };
  const entry = (words, text, act) => {
    const button = el("button", { type: "button", class: "save", title: words, "aria-label": words }, text);
    button.addEventListener("click", () => attempt(act));
    return button;
  };
  for (const [kind, make] of Object.entries(files)) {
    const words = `Download ${what} as ${kind.toUpperCase()}`;
    menu.append(entry(words, kind.toUpperCase(), async () => download(await make(), TYPES[kind], `${name()}.${kind}`)));
  }
  if (files.png) menu.append(entry(`Copy ${what} as an image`, "Copy", () => copy(files.png)));
  menu.append(said);
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    box.open = false;
    box.querySelector("summary").focus();
  });
  box.addEventListener("focusout", ({ relatedTarget }) => {
    if (relatedTarget && !box.contains(relatedTarget)) box.open = false;
  });
  return box;
}

async function copy(make) {
  await navigator.clipboard.write([new ClipboardItem({ "image/png": make() })]);
}
