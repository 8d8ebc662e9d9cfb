/* The page around the map: pictures, cards, names and their commands, table, unsure images. */

const data = JSON.parse(document.getElementById("data").textContent);
const find = (selector, root = document) => root.querySelector(selector);
const findAll = (selector, root = document) => [...root.querySelectorAll(selector)];
const percent = (share) => `${Math.round(100 * share)}%`;
const fileName = (path) => path.split(/[\\/]/).pop();

/** An element with attributes and children; text stays text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const marks = new Map();
for (const { id, name, kind } of data.classes) {
  const count = [...marks.values()].filter((mark) => mark.kind === "new").length;
  const mark = kind === "new" ? newMark(count) : { colour: "var(--known)", shape: SHAPES[0] };
  marks.set(id, { ...mark, kind, name });
}
marks.set(NONE, { colour: "var(--soft)", shape: CROSS, kind: "none", name: "no class fits" });
const keys = data.cls.map((id) => id ?? NONE);
const members = new Map([...marks.keys()].map((key) => [key, []]));
keys.forEach((key, i) => members.get(key).push(i));

function glyph(key) {
  const { colour, shape } = marks.get(key);
  const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", `M${shape.map(([x, y]) => `${x.toFixed(2)} ${y.toFixed(2)}`).join("L")}Z`);
  drawing.setAttribute("viewBox", "-1.5 -1.5 3 3");
  drawing.append(path);
  drawing.style.color = colour;
  return make("span", { class: "glyph", "aria-hidden": "true" }, drawing);
}

const about = (i) => `${marks.get(keys[i]).name}, ${percent(data.probability[i])}`;
const picture = (i) =>
  make("img", { src: data.thumbnail[i], alt: `${fileName(data.path[i])}: ${about(i)}`, decoding: "async" });

/** The note on an image, below a box on the screen or above it. */
const tip = {
  box: find("#tip"),
  show(i, box, withPicture) {
    const sure = `${percent(data.probability[i])}${data.unsure[i] ? ", unsure" : ""}`;
    const name = make("span", { class: "class" }, glyph(keys[i]), make("bdi", {}, marks.get(keys[i]).name));
    const path = make("div", { class: "path" }, make("bdi", {}, data.path[i]));
    const image = withPicture && data.thumbnail[i] ? [picture(i)] : [];
    this.box.replaceChildren(...image, make("div", { class: "text" }, name, make("span", {}, sure)), path);
    this.box.hidden = false;
    const { width, height } = this.box.getBoundingClientRect();
    const left = Math.min((box.left + box.right - width) / 2, document.documentElement.clientWidth - width - 8);
    const fits = box.bottom + 6 + height < window.innerHeight;
    this.box.style.left = `${Math.max(8, left)}px`;
    this.box.style.top = `${Math.max(8, fits ? box.bottom + 6 : box.top - 6 - height)}px`;
  },
  hide() {
    this.box.hidden = true;
  },
};
addEventListener("scroll", () => tip.hide(), { passive: true });
addEventListener("keydown", (event) => event.key === "Escape" && tip.hide());

/** A small picture, or the file's name if there is none; its note is shown on hover, focus and tap. */
function thumb(i, captions) {
  const face = data.thumbnail[i] ? picture(i) : make("span", { class: "file" }, fileName(data.path[i]));
  const button = make("button", { type: "button", class: "thumb", tabindex: -1, "data-dot": i }, face);
  if (captions) button.append(make("span", { class: "caption" }, captions(i)));
  const show = () => tip.show(i, face.getBoundingClientRect(), face.clientWidth < 60);
  button.onpointerenter = (event) => event.pointerType === "mouse" && show();
  button.onfocus = button.onclick = show;
  button.onpointerleave = button.onblur = () => tip.hide();
  return button;
}

/** Fill a gallery: one stop for the tabulator, arrow keys within it. */
function fill(gallery, dots, captions) {
  gallery.replaceChildren(...dots.map((i) => thumb(i, captions)));
  gallery.firstChild?.setAttribute("tabindex", 0);
  gallery.onkeydown = (event) => {
    const next = { ArrowRight: "nextSibling", ArrowLeft: "previousSibling" }[event.key];
    const other = next && document.activeElement[next];
    if (!other) return;
    event.preventDefault();
    document.activeElement.tabIndex = -1;
    other.tabIndex = 0;
    other.focus();
  };
}

for (const gallery of findAll("[data-dots]")) {
  const dots = gallery.dataset.dots.split(",").filter(Boolean).map(Number);
  fill(gallery, dots, "captions" in gallery.dataset && ((i) => percent(data.probability[i])));
}
for (const place of findAll("[data-class]")) place.append(...glyph(Number(place.dataset.class)).childNodes);
for (const place of findAll("[data-sample]")) {
  const inbox = members.get(Number(place.dataset.sample)) ?? [];
  const best = inbox.reduce((a, b) => (a === null || data.probability[b] > data.probability[a] ? b : a), null);
  if (best !== null && data.thumbnail[best]) place.append(picture(best));
}

/** A word for the shell; in double quotes where every shell reads them alike. */
function quoted(word) {
  if (/^[\w@%+=:,./][\w@%+=:,./-]*$/.test(word)) return word;
  return /^[\p{L}\p{N} _.,()-]+$/u.test(word) ? `"${word}"` : `'${word.replaceAll("'", "'\\''")}'`;
}

function command(id, name) {
  const model = data.model.startsWith("-") ? `./${data.model}` : data.model || "MODEL";
  const words = ["happycat", "name", quoted(model), `'#${id}'`, ...(name.startsWith("-") ? ["--"] : [])];
  return [...words, name ? quotedName(name) : '"…"'].join(" ");
}
const quotedName = (name) => (/^\w+$/.test(name) ? `"${name}"` : quoted(name));

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.body.appendChild(make("textarea", { style: "position: fixed; opacity: 0" }));
    area.value = text;
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  const words = button.dataset.words ?? (button.dataset.words = button.textContent);
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = words), 1500);
}

const cards = findAll(".card");
const typed = (card) => find(".name", card).value.replace(/\p{C}+/gu, " ").trim();
function refresh(card) {
  const name = typed(card);
  find(".command", card).textContent = command(card.dataset.id, name);
  find(".copy", card).disabled = !name;
  find("#copy-all").disabled = !cards.some(typed);
}
for (const card of cards) {
  refresh(card);
  find(".name", card).oninput = () => refresh(card);
  find(".copy", card).onclick = (event) => copy(command(card.dataset.id, typed(card)), event.currentTarget);
}

if (cards.length) {
  const text = new Map();
  for (const card of cards) {
    const paths = members.get(Number(card.dataset.id)).map((i) => data.path[i]);
    text.set(card, [card.dataset.name, ...paths].join("\n").toLowerCase());
  }
  find("#card-filter").oninput = (event) => {
    const wanted = event.target.value.trim().toLowerCase();
    for (const card of cards) card.hidden = !text.get(card).includes(wanted);
    find("#card-none").hidden = cards.some((card) => !card.hidden);
  };
  const order = () => {
    const by = find("#card-sort").value;
    const value = (card) => Number(card.dataset[by]);
    if (by === "name") cards.sort((a, b) => a.dataset.name.localeCompare(b.dataset.name, undefined, { numeric: true }));
    else cards.sort((a, b) => (by === "id" ? value(a) - value(b) : value(b) - value(a)));
    find(".cards").append(...cards);
  };
  find("#card-sort").onchange = order;
  order();
  find("#copy-all").onclick = (event) => {
    const lines = cards.filter(typed).map((card) => command(card.dataset.id, typed(card)));
    copy(lines.join("\n"), event.currentTarget);
  };
}

/** The legend: a class is shown or not; pointing at it lights its marks. */
function makeLegend(map) {
  const toggles = new Map();
  const update = () => {
    for (const [key, button] of toggles) button.setAttribute("aria-pressed", !map.hidden.has(key));
    map.redraw();
  };
  const only = (wanted) => {
    for (const key of marks.keys()) map.hidden[wanted === null || key === wanted ? "delete" : "add"](key);
    update();
  };
  const heads = { new: "New", known: "Known", none: "Neither" };
  let group = null;
  for (const [key, { name, kind }] of marks) {
    const count = members.get(key).length;
    if (!count) continue;
    if (kind !== group) find("#legend").append(make("li", { class: "group" }, heads[kind]));
    group = kind;
    const parts = [glyph(key), make("bdi", {}, name), make("span", { class: "count" }, count.toLocaleString("en"))];
    const toggle = make("button", { type: "button", class: "toggle", "aria-pressed": true, title: name }, ...parts);
    const alone = make("button", { type: "button", class: "only", "aria-label": `Show only ${name}` }, "only");
    const entry = make("li", { class: "entry" }, toggle, alone);
    toggle.onclick = () => (map.hidden.delete(key) || map.hidden.add(key), update());
    alone.onclick = () => only(key);
    entry.onpointerenter = entry.onfocusin = () => map.light(key);
    entry.onpointerleave = entry.onfocusout = () => map.light(null);
    toggles.set(key, toggle);
    find("#legend").append(entry);
  }
  find("#legend-all").onclick = () => only(null);
  find("#legend-unsure").onchange = (event) => map.setUnsureOnly(event.target.checked);
  for (const button of findAll("[data-locate]")) {
    button.onclick = () => {
      only(Number(button.dataset.locate));
      find("#map").scrollIntoView();
    };
  }
}
const map = find("#map canvas") && makeMap(find("#map"), data, marks, tip);
if (map) makeLegend(map);

find("#theme").onclick = () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("happycat-theme", root.dataset.theme);
  } catch {
    // private window: the choice lasts as long as the page
  }
  map?.repaint();
};

for (const table of findAll(".sortable")) {
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

if (find("#unsure")) {
  const most = 48;
  const all = data.path.map((_, i) => i).filter((i) => data.unsure[i] || keys[i] === NONE);
  all.sort((a, b) => data.probability[a] - data.probability[b]);
  const used = new Set(all.map((i) => keys[i]));
  const options = [...marks].filter(([key]) => used.has(key));
  find("#unsure-class").append(...options.map(([key, { name }]) => make("option", { value: key }, name)));
  let room = most;
  const show = () => {
    const wanted = find("#unsure-filter").value.trim().toLowerCase();
    const chosen = find("#unsure-class").value;
    const right = (i) => `${marks.get(keys[i]).name}\n${data.path[i]}`.toLowerCase().includes(wanted);
    const found = all.filter((i) => (!chosen || String(keys[i]) === chosen) && right(i));
    fill(find("#unsure-gallery"), found.slice(0, room), (i) => (keys[i] === NONE ? "no class fits" : about(i)));
    const count = found.length < all.length ? `${found.length} of ${all.length}, least sure first` : "Least sure first";
    find("#unsure-count").textContent = found.length ? count : "No unsure image matches.";
    find("#unsure-more").hidden = found.length <= room;
  };
  find("#unsure-filter").oninput = find("#unsure-class").onchange = () => ((room = most), show());
  find("#unsure-more").onclick = () => ((room += 4 * most), show());
  show();
}
