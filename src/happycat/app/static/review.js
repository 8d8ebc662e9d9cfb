/* Review with single keys: class by class, most doubtful first; then the unsure images; then questions. */

import { find, findAll, make, percent, thousands } from "./dom.js";
import { keepFocus } from "./focus.js";
import { approve, grow } from "./review_class.js";
import { questions, unsure } from "./review_ask.js";

export function makeReview(app) {
  const { store } = app;
  const box = find("#review");
  const past = []; // the versions before each step, to go back to
  let step = null;
  let busy = false;

  const review = {
    ...{ app, store, begin, act, next, previous, head, buttons, grid, go, finish, focus },
    growing: (id) => go(grow(review, id)),
    showing: (one) => step === one, // what has been waited for may come when something else is shown
  };

  /** The classes with images that nobody has checked; new ones first, large ones first. */
  function waiting() {
    const rank = (one) => (one.kind === "new" ? 0 : 1);
    const open = store.living.filter(({ id }) => store.open(id).length);
    return open.sort((a, b) => rank(a) - rank(b) || b.images - a.images || a.id - b.id).map(({ id }) => id);
  }

  function begin(id) {
    go(approve(review, id));
  }

  /** The class after the present one; after the last, the unsure images, then the questions. */
  function next(id = null) {
    const order = waiting();
    const at = id === null ? 0 : order.includes(id) ? order.indexOf(id) + 1 : 0;
    if (at < order.length) begin(order[at]);
    else if (store.unsure().length) go(unsure(review));
    else go(questions(review));
  }

  function previous(id) {
    const order = waiting();
    const at = order.indexOf(id);
    begin(order.at(at > 0 ? at - 1 : -1) ?? id);
  }

  function go(other) {
    step = other;
    step.start?.();
    render();
  }

  function finish() {
    go({ title: "Done", render: () => [head("All is checked", ""), make("p", {}, words())], key: () => false });
  }

  const words = () => `${thousands(store.checked)} of ${thousands(store.album.size)} images are checked.`;

  /** Do something that Z takes back. */
  async function act(verb, values, said) {
    const { version } = store.state;
    const done = await app.act(verb, values, said);
    if (done) past.push({ version, step });
    return done;
  }

  async function back() {
    const before = past.pop();
    const [verb, values] = before ? ["go_to", { number: before.version }] : ["undo", {}];
    const done = await app.act(verb, values, "Undone");
    if (done && before) step = before.step;
    step?.back?.();
    render();
  }

  /** The line above a step: where we are, what is asked. */
  function head(title, note, ...more) {
    const all = store.album.size;
    const bar = make("progress", { max: Math.max(all, 1), value: store.checked, "aria-label": words() });
    const heading = make("h1", { tabindex: -1 }, ...[title].flat());
    const line = make("div", { class: "review-line" }, heading, ...more);
    const explained = make("p", { class: "note", role: "status" }, note);
    return make("div", { class: "review-head" }, bar, line, explained);
  }

  /** Buttons that do what keys do. */
  function buttons(list) {
    const made = list.map(([key, text, kind = ""]) => {
      const one = make("button", { type: "button", class: kind }, make("kbd", {}, key), ` ${text}`);
      one.onclick = () => press({ key, preventDefault() {} });
      return one;
    });
    return make("div", { class: "row review-keys" }, ...made);
  }

  const chance = (i) => percent(store.state.probability[i]);

  /** Pictures that are marked until they are unmarked; the present one has a frame. */
  function grid(images, off, at, toggle, caption = chance) {
    const gallery = make("div", { class: "gallery review-grid", role: "listbox", "aria-multiselectable": true });
    gallery.setAttribute("aria-label", "Images to check");
    app.fill(gallery, images, caption);
    findAll(".thumb", gallery).forEach((thumb, n) => {
      thumb.setAttribute("aria-selected", !off.has(images[n]));
      thumb.classList.toggle("present", n === at);
      thumb.onclick = () => toggle(n);
      thumb.onfocus = null;
      thumb.onkeyup = (event) => event.preventDefault(); // the space bar marks; it is no click
      thumb.tabIndex = n === at ? 0 : -1;
    });
    gallery.onkeydown = null;
    return gallery;
  }

  /** Give the focus to the present picture, or to what is asked. */
  function focus() {
    (find(".present", box) ?? find("h1", box))?.focus();
  }

  function render() {
    const nothing = make("p", { class: "note block" }, "There is nothing to review.");
    if (!step || !store.state?.review) return box.replaceChildren(nothing);
    const free = document.activeElement === document.body || document.activeElement.closest(".review-grid");
    keepFocus(box, () => box.replaceChildren(...step.render()));
    if (free) focus();
    app.tip.hide();
    return null;
  }

  /** Keys are taken one after another; what one does is on disk before the next. */
  async function press(event) {
    if (busy || !step) return;
    const key = event.key.length === 1 && !event.shiftKey ? event.key.toLowerCase() : event.key;
    busy = true;
    try {
      if (key === "z") return void (await back());
      const own = step;
      const taken = await own.key(key, event);
      if (taken && own === step) render();
    } finally {
      busy = false;
    }
  }

  /** Take a key; the browser does nothing else with it, but a button that has the focus is pressed by Enter. */
  function key(event) {
    if (event.key.length > 1 && !/^(Arrow|Enter$|Escape$)/.test(event.key)) return;
    if (event.key === "Enter" && event.target.closest(".top, .review-keys, .candidates")) return;
    event.preventDefault();
    queue = queue.then(() => press({ key: event.key, shiftKey: event.shiftKey }));
  }
  let queue = Promise.resolve();

  return {
    begin,
    key,
    refresh: () => (step?.back?.(), render()),
    shown() {
      if (step) render();
      else if (store.state.review) next();
      focus(); // also if a link to here had it: a screen reader leaves keys to what has the focus
    },
  };
}
