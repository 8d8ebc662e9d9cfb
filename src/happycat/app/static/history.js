/* The versions of the model, to go back and forth in; the files that were skipped. */

import { find, make, thousands } from "./dom.js";

const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

export function makeHistory(app) {
  const { store } = app;

  function version(one) {
    const { version: now } = store.state;
    const jump = make("button", { type: "button" }, one.number === now ? "now" : "go to");
    jump.disabled = one.number === now;
    jump.setAttribute("aria-label", `Go to version ${one.number}`);
    jump.onclick = () => app.act("go_to", { number: one.number }, `Version ${one.number}`);
    const when = make("time", { datetime: one.when }, clock.format(new Date(one.when)));
    const what = make("span", { class: "what" }, make("bdi", {}, one.what));
    const state = one.number === now ? "now" : one.number > now ? "undone" : "";
    return make("li", { class: state }, make("b", {}, one.number), when, what, jump);
  }

  function refresh() {
    const { history, review } = store.state;
    find("#versions").replaceChildren(...[...history].reverse().map(version));
    const skipped = review?.skipped ?? [];
    find("#skipped").hidden = !skipped.length;
    find("#skipped-count").textContent = thousands(skipped.length);
    const cell = (text, kind = "") => make("td", { class: kind }, make("bdi", {}, text));
    const row = ([path, reason]) => make("tr", {}, cell(path, "path"), cell(reason));
    find("#skipped-rows").replaceChildren(...skipped.map(row));
  }

  return { refresh };
}
