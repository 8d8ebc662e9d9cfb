/* The versions of the model, to go back and forth in; the files that were skipped. */

import { button } from "./card_parts.js";
import { find, make, thousands } from "./dom.js";
import { keepFocus } from "./focus.js";

const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

export function makeHistory(app) {
  const { store } = app;

  function version(one) {
    const { version: now } = store.state;
    const go = () => app.act("go_to", { number: one.number }, `Version ${one.number}`);
    const jump = button("Go to", go, "", `Go to version ${one.number}`);
    const when = make("time", { datetime: one.when }, clock.format(new Date(one.when)));
    const what = make("span", { class: "what" }, make("bdi", {}, one.what));
    const state = one.number === now ? "now" : one.number > now ? "undone" : "";
    const here = make("span", { class: "quiet" }, "now");
    return make("li", { class: state }, make("b", {}, one.number), when, what, one.number === now ? here : jump);
  }

  function refresh() {
    const { history, review } = store.state;
    const list = find("#versions");
    keepFocus(list, () => list.replaceChildren(...[...history].reverse().map(version)));
    const skipped = review?.skipped ?? [];
    find("#skipped").hidden = !skipped.length;
    find("#skipped-count").textContent = thousands(skipped.length);
    const cell = (text, kind = "") => make("td", { class: kind }, make("bdi", {}, text));
    const row = ([path, reason]) => make("tr", {}, cell(path, "path"), cell(reason));
    find("#skipped-rows").replaceChildren(...skipped.map(row));
  }

  return { refresh };
}
