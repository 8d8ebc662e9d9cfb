/* Names that were typed but not stored yet: they survive a redrawn card and a reload of the tab. */

const key = (model, id) => `happycat-draft ${model} ${id}`;

/** What was typed for a class; null if nothing was. */
export function draft(model, id) {
  try {
    return sessionStorage.getItem(key(model, id));
  } catch {
    return null; // private window
  }
}

/** Keep what is typed, or forget it: null, or what the class is called already. */
export function keepDraft(model, id, text, name) {
  try {
    if (text === null || text.trim() === (name ?? "")) sessionStorage.removeItem(key(model, id));
    else sessionStorage.setItem(key(model, id), text);
  } catch {
    // private window: it lasts as long as the field
  }
}

/** Let a field show the draft of a class's name, or its name, and keep what is typed. */
export function followDraft(input, model, { id, name }) {
  input.value = draft(model, id) ?? name ?? "";
  input.addEventListener("input", () => keepDraft(model, id, input.value, name));
}
