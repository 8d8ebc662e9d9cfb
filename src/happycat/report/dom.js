/* Elements of the document: find, make and place them, sort a table, choose light or dark. */

export const find = (selector, root = document) => root.querySelector(selector);
export const findAll = (selector, root = document) => [...root.querySelectorAll(selector)];
export const percent = (share) => `${Math.round(100 * share)}%`;
export const thousands = (number) => number.toLocaleString("en");
export const fileName = (path) => path.split(/[\\/]/).pop();

/** An element with attributes and children; text stays text. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Show a box below a place on the screen, or above it if there is no room. */
export function beside(box, around) {
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  const left = Math.min((around.left + around.right - width) / 2, document.documentElement.clientWidth - width - 8);
  const fits = around.bottom + 6 + height < window.innerHeight;
  box.style.left = `${Math.max(8, left)}px`;
  box.style.top = `${Math.max(8, fits ? around.bottom + 6 : around.top - 6 - height)}px`;
}

/** Let the button change between light and dark; the choice is kept where the browser allows it. */
export function chooseTheme(button, changed) {
  button.onclick = () => {
    const root = document.documentElement;
    const system = matchMedia("(prefers-color-scheme: dark)").matches;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : system;
    root.dataset.theme = dark ? "light" : "dark";
    try {
      localStorage.setItem("happycat-theme", root.dataset.theme);
    } catch {
      // private window: the choice lasts as long as the page
    }
    changed();
  };
}

/** Let the buttons in a table's head sort its rows, by the cells' data-value or text. */
export function makeSortable(table) {
  const heads = findAll("thead th", table);
  const [body] = table.tBodies;
  const value = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
  for (const button of findAll("thead button", table)) {
    button.onclick = () => {
      const head = button.parentElement;
      const [column, before] = [heads.indexOf(head), head.getAttribute("aria-sort")];
      const falling = before ? before === "ascending" : head.className === "number";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const numeric = "value" in body.rows[0].cells[column].dataset;
      const compare = (a, b) => (numeric ? a - b : a.localeCompare(b, "en", { numeric: true }));
      const rows = [...body.rows].sort((a, b) => compare(value(a, column), value(b, column)));
      body.append(...(falling ? rows.reverse() : rows));
    };
  }
}
