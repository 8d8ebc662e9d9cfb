/* Messages and questions to the person: toasts, a yes-or-no dialog, the choice of a class. */

import { button } from "./card_parts.js";
import { find, findAll, make, thousands } from "./dom.js";

/** Put the messages into the dialog that lies above all else, if one is open: outside they are not read out. */
function raise() {
  const [box, front] = [find("#toasts"), findAll("dialog[open]").at(-1) ?? document.body];
  if (box.parentElement !== front) front.append(box);
  return box;
}
document.addEventListener("close", raise, true);

/** Show a line for some seconds; a problem stays until it is dismissed, or something else was done. */
export function toast(text, problem = false) {
  const words = text.charAt(0).toUpperCase() + text.slice(1);
  const line = make("p", { class: problem ? "toast problem" : "toast" }, words);
  const box = raise();
  for (const old of findAll(".problem", box)) old.remove();
  if (box.children.length > 2) box.firstChild.remove();
  box.append(line);
  if (problem) line.append(button("×", () => line.remove(), "plain", "Dismiss"));
  else setTimeout(() => line.remove(), 3500);
}

/** Open a dialog and wait for what its content calls `done` with; null if it is closed without. */
export function opened(dialog, content) {
  return new Promise((resolve) => {
    let answer = null;
    const done = (value) => ((answer = value), dialog.close());
    dialog.replaceChildren(...content(done));
    dialog.setAttribute("aria-label", find("h3", dialog).textContent);
    dialog.onclose = () => resolve(answer);
    dialog.onclick = (event) => event.target === dialog && dialog.close(); // beside it
    dialog.showModal();
  });
}

/** Ask a question; whether the answer is yes. */
export async function confirmed(question, yes, details = [], no = "Cancel") {
  const dialog = find("#ask");
  const answer = await opened(dialog, (done) => {
    const agree = button(yes, () => done(true), "main");
    agree.autofocus = true;
    const row = make("div", { class: "row" }, button(no, () => done(false)), agree);
    return [make("h3", {}, question), ...details, row];
  });
  return answer === true;
}

/** Ask for a text; null if none was given. */
export function asked(question, label, yes) {
  return opened(find("#ask"), (done) => {
    const input = make("input", { type: "text", "aria-label": label, placeholder: label, autocomplete: "off" });
    const form = make("form", { class: "stack" }, make("h3", {}, question), input);
    const agree = make("button", { type: "submit", class: "main" }, yes);
    form.append(make("div", { class: "row" }, button("Cancel", () => done(null)), agree));
    form.onsubmit = (event) => (event.preventDefault(), done(input.value.trim()));
    return [form];
  });
}

/**
 * Let the person choose a class by typing a part of its name; arrows and Enter, or a click.
 * Fulfilled with {id}, with {name} for a new class, or with null. `first`: classes that are likely; `own`: that of the
 * images, which need not be moved to it.
 */
export function chosenClass(store, title, first = [], own = null) {
  const rank = new Map(first.map((id, n) => [id, n - first.length]));
  const others = store.living.filter(({ id }) => id !== own);
  const classes = others.sort((a, b) => (rank.get(a.id) ?? 0) - (rank.get(b.id) ?? 0));
  return opened(find("#chooser"), (done) => {
    const input = make("input", { type: "text", role: "combobox", "aria-expanded": true, "aria-controls": "choices" });
    input.placeholder = "Type a class";
    input.setAttribute("aria-label", title);
    const list = make("ul", { id: "choices", class: "choices", role: "listbox", "aria-label": "Classes" });
    let [options, at] = [[], 0];
    const entry = (value, face, note) => {
      const count = make("span", { class: "quiet" }, note);
      const item = make("li", { role: "option", id: `choice-${options.length}` }, face, count);
      item.onclick = () => done(value);
      return [value, item];
    };
    const show = () => {
      const wanted = input.value.trim();
      const found = classes.filter(({ label }) => label.toLowerCase().includes(wanted.toLowerCase()));
      options = [];
      for (const { id, label, images } of found.slice(0, 200)) {
        const face = make("span", {}, store.album.glyph(id), make("bdi", {}, label));
        options.push(entry({ id }, face, thousands(images)));
      }
      const there = store.living.some(({ label }) => label.toLowerCase() === wanted.toLowerCase());
      if (wanted && !there) options.push(entry({ name: wanted }, make("bdi", {}, wanted), "new class"));
      list.replaceChildren(...options.map(([, item]) => item));
      point(0);
    };
    const point = (to) => {
      at = Math.min(Math.max(to, 0), options.length - 1);
      options.forEach(([, item], n) => item.setAttribute("aria-selected", n === at));
      options[at]?.[1].scrollIntoView({ block: "nearest" });
      input.setAttribute("aria-activedescendant", options[at]?.[1].id ?? "");
    };
    input.oninput = show;
    input.onkeydown = (event) => {
      if (event.key === "Enter" && options[at]) done(options[at][0]);
      else if (event.key === "ArrowDown") point(at + 1);
      else if (event.key === "ArrowUp") point(at - 1);
      else return;
      event.preventDefault();
    };
    show();
    return [make("h3", {}, title), input, list];
  });
}
