// What a person can read on the page, as data. Returns a function that playwright calls.
() => {
  const app = document.querySelector("[data-testid=stApp]");
  const words = (node) => (node?.textContent ?? "").trim();
  const shown = (node) => Boolean(node?.checkVisibility({ visibilityProperty: true }));
  const all = (root, css) => [...(root?.querySelectorAll(css) ?? [])].filter(shown);
  const own = (prefix) => (node) => [...node.classList].find((name) => name.startsWith(prefix));
  const keyed = (prefix) =>
    Object.fromEntries(
      all(app, `[class*="${prefix}"]`)
        .filter(own(prefix))
        .map((node) => [own(prefix)(node).slice(prefix.length), words(node)]),
    );
  const box = (node) => {
    const { left, top, width, height } = node.getBoundingClientRect();
    return [left + window.scrollX, top + window.scrollY, width, height];
  };
  // Every text of an SVG with where its middle is, as seen from `frame`.
  const texts = (svg, frame) => {
    const [left, top] = box(frame);
    return all(svg, "text").map((node) => {
      const [x, y, w, h] = box(node);
      const [anchor, role] = [node.getAttribute("text-anchor"), node.getAttribute("class") ?? ""];
      return { text: node.textContent, x: x + w / 2 - left, y: y + h / 2 - top, anchor, role };
    });
  };
  const inside = (node, frame) => {
    const [x, y, w, h] = box(node);
    const [left, top] = box(frame);
    return [x - left, y - top, w, h];
  };
  const chip = (node) => ({
    text: words(node.querySelector(".said")),
    mark: words(node.querySelector(".mark")),
    others: [...node.querySelectorAll(".others bdi")].map(words),
    words: node.getAttribute("aria-label"),
    title: node.title,
    shade: [...node.classList].find((name) => name.startsWith("shade")) ?? "",
    pressed: node.getAttribute("aria-pressed") === "true",
  });
  const answer = (node) => ({
    how: words(node.querySelector(".how")),
    words: [...node.querySelectorAll(".said-words bdi")].map(words),
    other: [...node.querySelectorAll(".said-words bdi.other")].map(words),
    whole: words(node.querySelector(".said-words")),
  });
  const key = (node) => {
    const stretch = node.querySelector("path");
    return {
      text: node.dataset.label,
      said: words(node),
      colour: stretch?.getAttribute("stroke") ?? "",
      dash: stretch?.getAttribute("stroke-dasharray") ?? "none",
      shown: node.getAttribute("aria-pressed") === "true",
    };
  };
  const lines = (figure) => {
    const plot = figure.querySelector(".linechart");
    return {
      tabs: all(figure, "[role=tab]").map((tab) => tab.title),
      title: all(figure, "[role=tab][aria-selected=true]").map((tab) => tab.title)[0],
      caption: words(figure.querySelector("figcaption")),
      alt: plot.querySelector("canvas").getAttribute("aria-label") ?? "",
      texts: texts(plot.querySelector("svg"), plot),
      chosen: all(plot, ".step-tick.chosen").map(words),
      log: all(figure, ".chart-tools button").some((button) => words(button) === "log"),
      legend: all(figure, ".chart-key").map(key),
      size: box(plot).slice(2),
    };
  };
  const heat = (figure) => {
    const frame = figure.querySelector(".field");
    const svg = frame.querySelector("svg[role=img]");
    const [metric, variant] = figure.querySelectorAll("select");
    return {
      caption: words(figure.querySelector("figcaption")),
      metric: metric.value,
      metrics: [...metric.options].map(words),
      variant: Number(variant.value),
      variants: [...variant.options].map(words),
      alt: svg.getAttribute("aria-label") ?? "",
      texts: texts(svg, frame),
      cells: inside(frame.querySelector("canvas"), frame),
      outlined: all(svg, "g[visibility=visible] rect[stroke='#fff']").map((rect) => inside(rect, frame)),
      legend: all(figure, ".legend .key").map(words),
    };
  };
  const behind = (section) => ({
    busy: section.getAttribute("aria-busy") === "true",
    hint: all(section, ".hint").map(words)[0] ?? "",
    title: all(section, "h3").map(words)[0] ?? "",
    alt: all(section, ".scatter svg").map((svg) => svg.getAttribute("aria-label"))[0] ?? "",
    rows: all(section, ".worst tbody tr").map((row) => [...row.querySelectorAll("td")].map(words)),
    next: all(section, ".next").map(words),
    counts: all(section, ".foot .caption").map(words)[0] ?? "",
    layers: all(section, ".foot .link").map(words)[0] ?? "",
  });
  // A title, then rows of words.
  const tip = (node) =>
    [...node.querySelectorAll(".tip-title, .chart-tip-title")].map(words).concat(
      [...node.querySelectorAll(".tip-value")].map(words),
      [...node.querySelectorAll(".chart-tip-rows b")].map((value) => [
        words(value.previousElementSibling),
        words(value),
        words(value.nextElementSibling),
      ]),
    );
  const live = () => {
    const root = document.querySelector(".st-key-live [data-testid=stBidiComponentIsolated]")?.shadowRoot;
    const view = root?.querySelector(".view");
    if (!shown(view)) return null;
    const part = (name) => words(all(view, name)[0]);
    return {
      state: view.dataset.state,
      headline: part(".headline"),
      emphasis: part(".headline em"),
      detail: part(".detail"),
      status: part(".status-words"),
      note: part(".note"),
      message: part(".message"),
      count: part(".alarms .count"),
      // The list is there before it is opened.
      alarms: [...view.querySelectorAll(".alarms li")].map((item) => [
        words(item.querySelector(".mark")),
        words(item.lastElementChild),
      ]),
      moreAlarms: words(view.querySelector(".alarms .list .caption")),
      prompt: part(".prompt-words"),
      pieces: [...view.querySelectorAll(".prompt-chips > bdi")].map((node) => [
        node.textContent,
        node.classList.contains("folded"),
      ]),
      chips: all(view, ".written .chip").map(chip),
      patched: all(view, ".answer.patched").map(answer)[0] ?? null,
      without: all(view, ".answer.without").map(answer)[0] ?? null,
      lines: all(view, "figure.lines").map(lines)[0] ?? null,
      map: all(view, "figure.map").map(heat)[0] ?? null,
      behind: all(view, "section.behind").map(behind)[0] ?? null,
      tip: all(view, ".tip, .chart-tip").flatMap(tip),
    };
  };
  // The two maps of the Layers page.
  const fields = () => {
    const root = document.querySelector(".st-key-fields [data-testid=stBidiComponentIsolated]")?.shadowRoot;
    if (!shown(root?.querySelector(".maps"))) return null;
    return {
      where: words(root.querySelector(".where")),
      readout: words(root.querySelector(".readout")),
      maps: all(root, "section.map").map((section) => ({
        metric: section.querySelector("select").value,
        cells: inside(section.querySelector(".field canvas"), section.querySelector(".field")),
        caption: words(section.querySelector(".caption")),
        alt: section.querySelector("svg[role=img]").getAttribute("aria-label") ?? "",
        legend: all(section, ".legend .key").map(words),
      })),
    };
  };
  // How many numbers a trace has, and their sum: enough to tell one run's from another's.
  const sum = (values) => {
    const numbers = Array.from(values ?? []).filter((v) => typeof v === "number" && Number.isFinite(v));
    return [numbers.length, numbers.reduce((total, value) => total + value, 0)];
  };
  const card = (figure) => [
    own("st-key-")(figure.closest("[class*=st-key-]")).slice("st-key-".length),
    {
      title: words(figure.querySelector("h3")),
      caption: words(figure.querySelector("figcaption").firstElementChild),
      alt: figure.querySelector(".ctxviz-plot").getAttribute("aria-label"),
      traces: (figure.querySelector(".ctxviz-plot")._fullData ?? []).map((t) => [
        t.name ?? "",
        t.type,
        ...[t.x, t.y].map(sum),
      ]),
    },
  ];
  const rows = (table) => all(table, "tbody tr").map((row) => [...row.querySelectorAll("td")].map(words));
  const table = (frame) => [
    own("st-key-")(frame.closest("[class*=st-key-]")).slice("st-key-".length),
    { alt: frame.getAttribute("aria-label"), rows: [...frame.querySelectorAll("table")].flatMap(rows) },
  ];
  const number = (input) => [input.getAttribute("aria-label"), input.value];
  const button = (node) => [words(node), node.disabled];
  const tableFrames = "[data-testid=stDataFrame] [role=region], [role=region]:has(table)";
  return {
    page: location.pathname.replaceAll("/", "") || "live",
    query: Object.fromEntries(new URLSearchParams(location.search)),
    title: document.title,
    script: app.dataset.testScriptState,
    trouble: all(app, "[data-testid=stException]").map(words),
    hints: keyed("st-key-hint-"),
    messages: keyed("st-key-message-"),
    verdicts: keyed("st-key-verdict-"),
    headings: all(app, ".ctxviz-sentence").map(words),
    numbers: Object.fromEntries(
      all(app, "[data-testid=stNumberInputField], [data-testid=stSelectbox] input").map(number),
    ),
    prompt: document.querySelector("textarea[aria-label=Prompt]")?.value ?? null,
    pills: Object.fromEntries(
      all(app, "[data-testid=stButtonGroup] [aria-label]").map((group) => [
        group.getAttribute("aria-label"),
        all(group, "[aria-pressed=true], [aria-checked=true]").map(words),
      ]),
    ),
    buttons: Object.fromEntries(
      all(app, "[data-testid=stButton] button, [data-testid=stPopoverButton]").map(button),
    ),
    cards: Object.fromEntries(all(app, "figure.ctxviz-figure").map(card)),
    tables: Object.fromEntries(all(app, tableFrames).map(table)),
    live: live(),
    fields: fields(),
  };
}
