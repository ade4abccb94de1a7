/**
 * What a browser tab remembers of its own: the name under which the server noted its runs, and its address.
 *
 * The address is put in the place of the one there is, so that a press of Back leaves the page.
 */

export const NAME = "ctxviz-tab";
// Not empty where the tab has runs of its own to lose.
export const HELD = "ctxviz-held";

export default function ({ data }) {
  document.documentElement.dataset.ctxvizArrived = "1";
  sessionStorage.setItem(NAME, data.tab);
  sessionStorage.setItem(HELD, data.held ? "1" : "");
  writeAddress(data.query);
}

/** Say the settings in the address, without a new entry in the history. */
function writeAddress(query) {
  const search = query ? `?${query}` : "";
  if (location.search !== search) {
    history.replaceState(history.state, "", `${location.pathname}${search}${location.hash}`);
  }
}
