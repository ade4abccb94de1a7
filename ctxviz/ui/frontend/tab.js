/**
 * What a browser tab remembers of its own: the name under which the server noted its runs, and its address.
 *
 * The name must not be in the address, which people copy. It is kept in sessionStorage and handed back once
 * after a reload, but not where a link was pasted into the same tab.
 * The address is put in the place of the one there is, so that a press of Back leaves the page.
 */

const NAME = "ctxviz-tab";

export default function ({ data, setTriggerValue }) {
  const page = document.documentElement.dataset;
  const arrival = performance.getEntriesByType("navigation")[0]?.type;
  const kept = sessionStorage.getItem(NAME);
  const first = !page.ctxvizArrived;
  page.ctxvizArrived = "1";
  if (first && kept && kept !== data.tab && (arrival === "reload" || arrival === "back_forward")) {
    setTriggerValue("resume", kept);
  } else {
    sessionStorage.setItem(NAME, data.tab);
  }
  writeAddress(data.query);
}

/** Say the settings in the address, without a new entry in the history. */
function writeAddress(query) {
  const search = query ? `?${query}` : "";
  if (location.search !== search) {
    history.replaceState(history.state, "", `${location.pathname}${search}${location.hash}`);
  }
}
