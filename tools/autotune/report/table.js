// A table that is sorted by a click on a column's title and filtered by words, and whose rows open to show details. Only
// rows that are shown are in the page, at first the leading ones, so that a thousand rows sort without a pause.

const leadingRows = 100;

// `columns`: {key, title, value(row), cell(row), number, extra}; `extra` ones are hidden on phones, `more` ones on narrow
// screens. `detail(row)` makes what an opened row shows. `textOf(row)`: what the filter looks at.
function sortableTable({id, caption, columns, rows, sort, detail, textOf, rowId}) {
  const classOf = (column) => [column.number && 'n', (column.extra || column.more) && 'extra', column.more && 'more', column.class]
      .filter(Boolean).join(' ');
  const body = el('tbody', {});
  const heads = columns.map((column) => el('th', {scope: 'col', class: classOf(column), title: column.help},
      el('button', {type: 'button', onclick: () => sortBy(column)}, column.title)));
  let items = rows.map((row, index) => ({row, index, node: null, open: null, text: textOf(row).toLowerCase()}));
  let all = rows.length <= leadingRows;

  function makeRow(item) {
    return el('tr', {id: rowId(item.row)}, columns.map((column, i) => {
      const value = column.value(item.row);
      const cell = column.cell(item.row);
      return el('td', {class: classOf(column), dataset: {field: column.key, value: value === null || value === undefined ? '' : value}},
          i > 0 ? cell : el('button', {class: 'open', type: 'button', 'aria-expanded': 'false', onclick: () => toggle(item)}, cell));
    }));
  }
  function toggle(item, open = !item.open) {
    if (open === Boolean(item.open)) return;
    item.node.querySelector('.open').setAttribute('aria-expanded', String(open));
    if (open) {
      item.open = el('tr', {class: 'detail'}, el('td', {colspan: columns.length}, detail(item.row)));
      item.node.after(item.open);
    } else {
      item.open.remove();
      item.open = null;
    }
  }
  function show() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fitting = items.filter((item) => words.every((word) => item.text.includes(word)));
    const shown = document.createDocumentFragment();
    for (const item of all ? fitting : fitting.slice(0, leadingRows)) {
      item.node = item.node || makeRow(item);
      shown.append(item.node);
      if (item.open) shown.append(item.open);
    }
    body.replaceChildren(shown);
    count.textContent = fitting.length === items.length ? '' : counted(fitting.length, 'row') + ' of ' + items.length;
    rest.hidden = all || fitting.length <= leadingRows;
    rest.textContent = 'Show all ' + counted(fitting.length, 'row');
  }
  function sortBy(column, descending) {
    const head = heads[columns.indexOf(column)];
    if (descending === undefined) {
      const now = head.getAttribute('aria-sort');
      descending = now ? now === 'ascending' : Boolean(column.number);
    }
    for (const other of heads) other.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
    const missing = (value) => value === null || value === undefined || value === '';
    const keyed = items.map((item) => ({item, value: column.value(item.row)}));
    keyed.sort((a, b) => {
      if (missing(a.value) || missing(b.value)) return missing(a.value) - missing(b.value) || a.item.index - b.item.index;
      const order = a.value < b.value ? -1 : a.value > b.value ? 1 : 0;
      return (descending ? -order : order) || a.item.index - b.item.index;
    });
    items = keyed.map(({item}) => item);
    show();
  }
  function showAll() {
    all = true;
    show();
  }

  const filter = el('input', {type: 'search', id: id + '-filter', oninput: show});
  const count = el('span', {class: 'hint', role: 'status'});
  const rest = el('button', {class: 'rest', type: 'button', onclick: showAll});
  const node = el('div', {},
      el('p', {class: 'filter'}, el('label', {for: id + '-filter'}, 'Show rows with '), filter, ' ', count),
      el('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption},
          el('table', {class: 'wide', id}, el('caption', {}, caption), el('thead', {}, el('tr', {}, heads)), body)), rest);
  addEventListener('beforeprint', showAll);
  sortBy(columns.find((column) => column.key === sort), true);
  // Opens the row of a kernel and brings it into view.
  const reveal = (row) => {
    const item = items.find((other) => other.row === row);
    if (!item) return;
    filter.value = '';
    all = all || items.indexOf(item) >= leadingRows;
    show();
    for (const other of items) if (other.node) other.node.classList.toggle('chosen', other === item);
    toggle(item, true);
    item.node.scrollIntoView({block: 'center'});
    item.node.querySelector('.open').focus({preventScroll: true});
  };
  return {node, reveal};
}
