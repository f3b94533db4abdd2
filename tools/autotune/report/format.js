// Texts of numbers with their units, and elements of the page. Every text becomes a text node, so no name is ever read
// as HTML.

const digits = (value, n) => {
  if (value === 0) return '0';
  const places = Math.max(0, n - 1 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(places, 6));
};

function timeText(us) {
  if (us === null || us === undefined) return '–';
  if (us >= 1e6) return digits(us / 1e6, 4) + ' s';
  if (us >= 100) return digits(us / 1e3, 4) + ' ms';
  return digits(us, 4) + ' µs';
}
const percentText = (share) => share === null || share === undefined ? '–' : (100 * share).toFixed(1) + ' %';
const rateText = (value, unit) => value === null || value === undefined ? '–' : digits(value, 3) + ' ' + unit;
const timesText = (value) => value === null || value === undefined ? '–' : value.toFixed(3);
const dateText = (ms) => new Date(ms).toISOString().replace('T', ' ').slice(0, 16) + ' UTC';
const counted = (n, noun) => n.toLocaleString('en') + ' ' + noun + (n === 1 ? '' : 's');
const shortId = (task) => task.slice(0, 8);

function bytesText(bytes) {
  if (bytes >= 1e9) return digits(bytes / 1e9, 3) + ' GB';
  if (bytes >= 1e6) return digits(bytes / 1e6, 3) + ' MB';
  return bytes >= 1e3 ? digits(bytes / 1e3, 3) + ' KB' : bytes + ' bytes';
}

function intervalText(estimate) {
  if (!estimate || estimate.low_us === null) return '';
  return '95 %: ' + timeText(estimate.low_us) + ' to ' + timeText(estimate.high_us);
}

// "conv2d_add_relu [1,56,56,64] x [3,3,64,64]" becomes "conv2d_add_relu 56×56×64": the operators, and the first shape
// without a batch of one.
function shortName(label) {
  const match = /^(\S+) \[([\d,]+)\]/.exec(label);
  if (!match) return label.length > 48 ? label.slice(0, 47) + '…' : label || '(no name)';
  const shape = match[2].split(',');
  if (shape.length > 1 && shape[0] === '1') shape.shift();
  const name = match[1].length > 40 ? match[1].slice(0, 39) + '…' : match[1];
  return name + ' ' + shape.join('×');
}

// The class of a share of the roof.
const classes = [
  {name: 'far', limit: 0.25, text: 'below 25 % of the roof'}, {name: 'below', limit: 0.5, text: '25 to 50 %'},
  {name: 'near', limit: 0.75, text: '50 to 75 %'}, {name: 'at', limit: Infinity, text: '75 % and more'}];
function roofClass(share) {
  return share === null || share === undefined ? 'none' : classes.find((c) => share < c.limit).name;
}

// el('p', {class: 'muted', dataset: {field: 'x'}}, 'text', node, ...): an element. Null children are left out.
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined) continue;
    if (name === 'dataset') Object.assign(node.dataset, value);
    else if (name === 'style') for (const [key, v] of Object.entries(value)) node.style.setProperty(key, v);
    else if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined) node.append(child);
  return node;
}

// A number that tests and scripts can read back: its full value is in data-value.
function number(field, value, text) {
  return el('span', {class: 'number', dataset: {field, value: value === null || value === undefined ? '' : value}}, text);
}

const tile = (title, value, small) =>
    el('div', {class: 'tile'}, el('dt', {}, title), el('dd', {}, value, small ? el('small', {}, small) : null));

const facts = (pairs) => el('dl', {class: 'facts'},
    pairs.filter(([, value]) => value !== null && value !== undefined && value !== '')
        .map(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));

// A plain table: `rows` of texts, or of [text, value] for numbers.
function plainTable(caption, head, rows) {
  const cell = (tag, value) => Array.isArray(value)
      ? el(tag, {class: 'n', dataset: {value: value[1] === null ? '' : value[1]}}, value[0]) : el(tag, {}, value);
  return el('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption},
      el('table', {}, el('caption', {}, caption),
          el('thead', {}, el('tr', {}, head.map((text, i) =>
              el('th', {scope: 'col', class: rows.length && Array.isArray(rows[0][i]) ? 'n' : null}, text)))),
          el('tbody', {}, rows.map((row) => el('tr', {}, row.map((value) => cell('td', value)))))));
}
