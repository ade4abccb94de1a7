// One figure large: while a run is at work the live figure itself, once it rests the full Plotly figure.

import { brief } from "./charts.js";
import { Figure } from "./figure.js";
import { el } from "./look.js";

const VARIABLES = ["--st-background-color", "--st-secondary-background-color", "--st-text-color", "--st-font"];
const MARGIN = 190;

export class Enlarged {
  // `home` is an element of the page whose theme is taken.
  constructor(home) {
    this.home = home;
    this.shown = null;
  }

  get open() {
    return this.shown !== null;
  }

  // Whether it is the live figure itself that is shown large.
  get live() {
    return this.open && this.shown.classList.contains("live");
  }

  // The live figure moves into a dialog and back; `redraw` draws it there.
  showLive(node, redraw) {
    this.close();
    const place = node.parentElement;
    const before = node.nextSibling;
    const dialog = this.dialog(() => {
      place.insertBefore(node, before);
      redraw();
    });
    dialog.classList.add("live");
    dialog.append(node);
    this.home.append(dialog);
    dialog.showModal();
    redraw();
  }

  // A figure fetched from `address`, drawn by Plotly; lines whose brief names are `hidden` are so there too.
  async showFigure(address, hidden) {
    this.close();
    const dialog = this.dialog(() => figure?.end());
    const style = getComputedStyle(this.home);
    for (const name of VARIABLES) dialog.style.setProperty(name, style.getPropertyValue(name));
    dialog.style.cssText += `;background:${style.getPropertyValue("--st-background-color")};color:${style.getPropertyValue("--st-text-color")};font-family:${style.getPropertyValue("--st-font")};width:96vw;max-width:1500px;border:0;border-radius:.5rem;padding:2.6rem 1.4rem 1rem;`;
    const said = el("p", { role: "status" }, "Drawing …");
    dialog.append(said);
    let figure = null;
    document.body.append(dialog);
    dialog.showModal();
    try {
      const answer = await fetch(address, { signal: AbortSignal.timeout(60000) });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const { card } = await answer.json();
      if (this.shown !== dialog) return;
      figure = new Figure(dialog);
      said.remove();
      figure.update({ data: { ...card, figure: tall(card.figure, hidden) }, setTriggerValue: () => {} });
    } catch {
      said.textContent = "The figure could not be drawn; close this and try again.";
    }
  }

  dialog(leave) {
    const dialog = el("dialog", { class: "ctxviz-large", "aria-label": "Enlarged figure" });
    const close = el("button", { type: "button", class: "ctxviz-close", title: "Close, or press Escape", "aria-label": "Close" }, "✕");
    close.style.cssText = "position:absolute;top:.5rem;right:.6rem;z-index:2;border:0;background:none;color:inherit;font-size:1.2rem;cursor:pointer;padding:.2rem .5rem";
    close.addEventListener("click", () => this.close());
    dialog.append(close);
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      this.close();
    });
    dialog.addEventListener("click", (event) => event.target === dialog && this.close());
    this.shown = dialog;
    this.leave = leave;
    return dialog;
  }

  close() {
    if (!this.shown) return;
    const { shown, leave } = this;
    this.shown = null;
    leave();
    shown.close();
    shown.remove();
  }
}

// The figure as high as the window.
function tall(figure, hidden) {
  const drawn = JSON.parse(figure);
  for (const trace of drawn.data) if (hidden.has(brief(trace.name ?? ""))) trace.visible = "legendonly";
  drawn.layout.height = Math.max(320, window.innerHeight - MARGIN);
  return JSON.stringify(drawn);
}
