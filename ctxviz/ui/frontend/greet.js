/**
 * Asked of the browser before anything is drawn: under which name this tab kept its runs.
 *
 * The name must not be in the address, which people copy. It is handed back after a reload, and where the page has
 * lost its server's session, but not where a link was pasted into the same tab.
 */

import { HELD, NAME } from "./tab.js";

export default function ({ setTriggerValue }) {
  const arrival = performance.getEntriesByType("navigation")[0]?.type;
  const again = document.documentElement.dataset.ctxvizArrived || arrival === "reload" || arrival === "back_forward";
  const name = again ? sessionStorage.getItem(NAME) : null;
  setTriggerValue("kept", { name, held: Boolean(again && sessionStorage.getItem(HELD)) });
}
