/* Requests to the app on this computer; its addresses are relative, so they hold the token. */

/** What was asked for is refused, with one line for the person; `stale` if the tab shows an earlier version. */
export class Refused extends Error {
  constructor(message, stale = false) {
    super(message);
    this.stale = stale;
  }
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Refused("The app does not answer; was it closed in the terminal?");
  }
  if (response.ok) return response;
  let content = {};
  try {
    content = await response.json();
  } catch {
    // not from one of our own answers
  }
  throw new Refused(content.error ?? `The app answered with error ${response.status}.`, content.stale);
}

export const get = async (path) => (await ask(path)).json();
export const text = async (path) => (await ask(path)).text();

export async function post(path, values = {}) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(values) };
  return (await ask(path, options)).json();
}

export const send = async (path, file) => (await ask(path, { method: "POST", body: file })).json();
