/* Labels of the map: each beside the marks of its class, and none on a mark or on another label. */

const CELL = 4; // pixels of the grid that knows where marks are
const HEIGHT = 18; // of a label
const [STEP, FAR] = [8, 320]; // how finely and how far around the middle of its marks a place is looked for
const [BESIDE, REACH] = [14, 56]; // pixels to the nearest mark of its class: without a line to it, and at most
const DETOUR = 64; // pixels that a place beside a mark may be farther away than one that needs a line

/**
 * Places for labels, in their order of importance: {x, y, half, line} for each, or null where there is none.
 * `labels`: {half, marks}, half the width and the marks [x, y] of its class; `marks`: all marks, of `radius`; `taken`:
 * boxes {x, y, half, tall} that are not free, `tall` being half the height. `line` leads to the nearest mark of the class, if it is not beside it.
 */
export function placeLabels(labels, { marks, radius, width, height, taken = [] }) {
  const free = freeBoxes(marks, radius, width, height);
  const boxes = [...taken];
  const apart = (box, x, y, half, tall) =>
    Math.abs(box.x - x) >= box.half + half || Math.abs(box.y - y) >= box.tall + tall;
  const clear = (x, y, half, tall) =>
    free(x - half, y - tall, x + half, y + tall) && boxes.every((box) => apart(box, x, y, half, tall));

  function placed({ half, marks: own }) {
    const middle = [0, 1].map((axis) => own.map((mark) => mark[axis]).sort((a, b) => a - b)[own.length >> 1]);
    let aside = null;
    for (const [x, y, far] of around(middle)) {
      if (aside && far > aside.far + DETOUR) break;
      if (!clear(x, y, half, HEIGHT / 2)) continue;
      const near = nearest(own, x, y, half);
      const distance = gap(near, x, y, half);
      if (distance <= radius + BESIDE) return { x, y, half, line: null };
      if (aside || distance > radius + REACH) continue;
      const line = lineTo(near, x, y, half, radius / distance);
      if (alongLine(line).every(([a, b]) => clear(a, b, 1, 1))) aside = { x, y, half, line, far };
    }
    return aside;
  }

  return labels.map((label) => {
    const place = placed(label);
    if (place) boxes.push({ ...place, tall: HEIGHT / 2 });
    if (place?.line) boxes.push(...alongLine(place.line).map(([x, y]) => ({ x, y, half: 2, tall: 2 })));
    return place;
  });
}

/** The line from a label's box to a mark, less a share of it at the mark's end. */
function lineTo([a, b], x, y, half, less) {
  const from = [Math.min(Math.max(a, x - half), x + half), Math.min(Math.max(b, y - HEIGHT / 2), y + HEIGHT / 2)];
  return [from, [a + less * (from[0] - a), b + less * (from[1] - b)]];
}

/** Points of a line, but for its end at the mark. */
function alongLine([[a, b], [c, d]]) {
  const steps = Math.max(1, Math.floor(Math.hypot(c - a, d - b) / CELL) - 1);
  return Array.from({ length: steps }, (_, n) => [a + ((c - a) * n) / (steps + 1), b + ((d - b) * n) / (steps + 1)]);
}

/** How far a mark is from a label's box. */
function gap([a, b], x, y, half) {
  return Math.hypot(Math.max(0, Math.abs(a - x) - half), Math.max(0, Math.abs(b - y) - HEIGHT / 2));
}

function nearest(marks, x, y, half) {
  let [best, least] = [null, Infinity];
  for (const mark of marks) {
    const distance = gap(mark, x, y, half);
    if (distance < least) [best, least] = [mark, distance];
  }
  return best;
}

/** Places around a middle and how far away they are, the nearest first. */
function* around([x, y]) {
  yield [x, y, 0];
  for (let far = STEP; far <= FAR; far += STEP) {
    const turns = Math.ceil((2 * Math.PI * far) / (2 * STEP));
    for (let n = 0; n < turns; n++) {
      const angle = -Math.PI / 2 + (2 * Math.PI * n) / turns; // above the middle first
      yield [x + far * Math.cos(angle), y + far * Math.sin(angle), far];
    }
  }
}

/** A function that says whether a box is within the map and has no mark: a table of sums over a grid of cells. */
function freeBoxes(marks, radius, width, height) {
  const [columns, rows] = [Math.ceil(width / CELL), Math.ceil(height / CELL)];
  const used = new Uint8Array(columns * rows);
  const cell = (value, count) => Math.min(count - 1, Math.max(0, Math.floor(value / CELL)));
  for (const [x, y] of marks) {
    const [left, right] = [cell(x - radius, columns), cell(x + radius, columns)];
    for (let row = cell(y - radius, rows); row <= cell(y + radius, rows); row++) {
      used.fill(1, row * columns + left, row * columns + right + 1);
    }
  }
  const wide = columns + 1;
  const sums = new Int32Array(wide * (rows + 1));
  for (let row = 0; row < rows; row++) {
    let along = 0;
    for (let column = 0; column < columns; column++) {
      along += used[row * columns + column];
      sums[(row + 1) * wide + column + 1] = sums[row * wide + column + 1] + along;
    }
  }
  return (left, top, right, bottom) => {
    if (left < 2 || top < 2 || right > width - 2 || bottom > height - 2) return false;
    const [a, b] = [cell(left, columns), cell(right, columns) + 1];
    const [c, d] = [cell(top, rows), cell(bottom, rows) + 1];
    return sums[d * wide + b] - sums[c * wide + b] - sums[d * wide + a] + sums[c * wide + a] === 0;
  };
}
