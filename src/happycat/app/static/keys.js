/* The list of keys. */

import { opened } from "./dialogs.js";
import { find, make } from "./dom.js";

const KEYS = {
  Everywhere: [["Ctrl Z", "undo"], ["Ctrl Shift Z", "redo"], ["?", "these keys"]],
  "Class cards": [["Enter", "store the name, go to the next class without one"]],
  Pictures: [["Enter", "open"], ["Space", "select"], ["Shift arrows", "select several"], ["Esc", "select none"]],
  "Selected pictures": [
    ...[["M", "move"], ["C", "confirm"], ["R", "reject"]],
    ...[["I", "ignore"], ["N", "new class"], ["S", "split off"]],
  ],
  "Review: a class": [
    ["Enter or A", "approve the page: confirm what is marked, reject the rest"],
    ["Shift A", "approve all of the class"],
    ["arrows, X", "go to a picture, mark or unmark it"],
    ["I", "ignore the unmarked, or else the present picture"],
    ["E", "name the class"], ["G", "grow the class"], ["N, P", "next, previous class"], ["Z", "undo"],
  ],
  "Review: growing": [
    ...[["Y", "all of them belong: look further on"], ["N", "none belongs"]],
    ...[["X", "this one does not"], ["Esc", "stop"]],
  ],
  "Review: unsure images": [
    ...[["1 to 5", "is of that class"], ["M", "another class"]],
    ...[["I", "ignore"], ["N, P", "next, previous"]],
  ],
  "Review: questions": [["Y, N", "yes, no"], ["S", "skip"]],
};

export function showKeys() {
  return opened(find("#ask"), (done) => {
    const groups = Object.entries(KEYS).map(([title, rows]) => {
      const lines = rows.flatMap(([key, words]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, words)]);
      return make("div", {}, make("h4", {}, title), make("dl", {}, ...lines));
    });
    const close = make("button", { type: "button", class: "main" }, "Close");
    close.autofocus = true;
    close.onclick = () => done(null);
    return [make("h3", {}, "Keys"), make("div", { class: "keys" }, ...groups), make("div", { class: "row" }, close)];
  });
}
