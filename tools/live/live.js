// What both live pages share: the connection to the server, lists that keep their rows, and texts of time. The server
// sends the whole state, then merge patches (RFC 7396). Every text becomes a text node.

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);

// A copy whose objects have no prototype, so that no name, such as __proto__, means anything.
function bare(value) {
  if (Array.isArray(value)) return value.map(bare);
  if (!isObject(value)) return value;
  const copy = Object.create(null);
  for (const key of Object.keys(value)) copy[key] = bare(value[key]);
  return copy;
}
function merge(target, change) {
  for (const key of Object.keys(change)) {
    if (change[key] === null) delete target[key];
    else if (isObject(change[key]) && isObject(target[key])) merge(target[key], change[key]);
    else target[key] = bare(change[key]);
  }
}

const clockText = (ms) => new Date(ms).toLocaleTimeString('en-GB', {hour12: false});
const momentText = (ms) => (Math.abs(ms - link.now()) > 20 * 3600e3 ? new Date(ms).toLocaleDateString('en-CA') + ' ' : '') + clockText(ms).slice(0, 5);
function lastingText(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 120) return s + ' s';
  if (s < 7200) return Math.floor(s / 60) + ' min';
  return s < 172800 ? Math.floor(s / 3600) + ' h' : Math.floor(s / 86400) + ' days';
}

const put = (node, text) => { if (node.textContent !== text) node.textContent = text; };
const set = (node, name, value) => { if (node.getAttribute(name) !== value) node.setAttribute(name, value); };
const show = (node, shown) => { if (node.hidden === shown) node.hidden = !shown; };
// A time that grows while the page is live.
const age = (ms) => el('time', {dataset: {since: ms}}, lastingText(link.now() - ms));
function setAge(node, ms) {
  if (node.dataset.since === String(ms)) return;
  node.dataset.since = ms;
  put(node, lastingText(link.now() - ms));
}

// Makes the children of `parent` one node for each id, in this order. Nodes stay, so that nothing flickers, and what is
// selected or focused remains so.
function keyed(parent, ids, make, update) {
  const nodes = parent.nodes || (parent.nodes = new Map());
  const wanted = new Set(ids);
  for (const [id, node] of nodes) {
    if (wanted.has(id)) continue;
    node.remove();
    nodes.delete(id);
  }
  ids.forEach((id, i) => {
    let node = nodes.get(id);
    if (!node) nodes.set(id, node = make(id));
    update(node, id);
    if (parent.children[i] !== node) parent.insertBefore(node, parent.children[i] || null);
  });
}

// The address of a page that somebody else has stated, or null if a browser should not open it.
function webUrl(text) {
  try {
    const url = new URL(text);
    return /^https?:$/.test(url.protocol) && url.username === '' && text.length <= 1000 ? url : null;
  } catch (_) {
    return null;
  }
}
const isLoopback = (host) => host === 'localhost' || host === '[::1]' || /^127(\.\d+){3}$/.test(host);
const setLink = (node, url) => { set(node, 'href', url.href); put(node, url.href); };
// A word of a command for a shell.
const shellWord = (text) => /^[\w@%+=:,./-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'";

// A chart that grows. `set(config, rows)` shows other data, and `rows` in its table.
function liveFigure({id, label, caption, head, size}) {
  const body = el('div', {});
  const node = figure({id, label, caption, make: null, table: body, size});
  const entry = drawn[drawn.length - 1], details = node.querySelector('details');
  let rows = [], config = null;
  const tell = () => { if (details.open) body.replaceChildren(plainTable(label, head, rows)); };
  details.addEventListener('toggle', tell);
  entry.make = () => config;
  return {node, set(next, itsRows, text) {
    config = next;
    rows = itsRows;
    tell();
    if (text) set(entry.canvas, 'aria-label', label + '. ' + text);
    if (!entry.chart) return draw(entry);
    entry.chart.data.datasets.forEach((old, i) => Object.assign(old, next.data.datasets[i]));
    entry.chart.data.datasets.length = Math.min(entry.chart.data.datasets.length, next.data.datasets.length);
    for (const dataset of next.data.datasets.slice(entry.chart.data.datasets.length)) entry.chart.data.datasets.push(dataset);
    entry.chart.data.labels = next.data.labels;
    for (const [axis, its] of Object.entries(next.options.scales)) Object.assign(entry.chart.options.scales[axis], its);
    entry.chart.update('none');
  }, drop() {
    drawn.splice(drawn.indexOf(entry), 1);
    if (entry.chart) entry.chart.destroy();
  }};
}

// The connection. `link.now()` is the server's time, which stands still while the page is not live.
const silentMs = 4000, againMs = 6000;
const link = {
  state: null, heard: 0, tried: 0, live: false, source: null,
  now() { return this.state ? this.state.now + (this.live ? performance.now() - this.heard : 0) : Date.now(); },
};

// `draw(state)` shows a state. `who`: the program that sends it. `over(state)`: a text if the run has ended.
function follow({title, who, draw: drawState, over}) {
  const news = el('p', {class: 'news', role: 'status'}, 'Connecting…');
  document.getElementById('head').append(title, news);
  let program = null, began = 0;

  function tellNews() {
    const ended = link.state && over ? over(link.state) : '';
    const live = link.live && !ended;
    document.body.classList.toggle('ended', Boolean(ended));
    document.body.classList.toggle('stale', !link.live && !ended);
    if (live) put(news, 'Live');
    else if (ended) put(news, ended);
    else if (link.state) put(news, 'Not live: no news from ' + who + ' since ' + clockText(link.state.now) + '. Trying again…');
    else put(news, 'No answer from ' + who + '. Trying again…');
  }
  function take(state) {
    // Another version has another page, and another run at this address must not show the curves of the former.
    if ((program !== null && program !== state.program) || (began && began !== state.began)) return location.reload();
    program = state.program;
    began = state.began || 0;
    link.state = state;
    link.heard = performance.now();
    link.live = true;
    drawState(state);
    tellNews();
  }
  function connect() {
    if (link.source) link.source.close();
    link.tried = performance.now();
    const source = link.source = new EventSource('/events');
    let whole = false;  // a connection begins with the whole state
    source.addEventListener('state', (event) => {
      whole = true;
      take(bare(JSON.parse(event.data)));
    });
    source.addEventListener('patch', (event) => {
      if (!whole) return;
      merge(link.state, JSON.parse(event.data));
      take(link.state);
    });
    source.addEventListener('error', () => {
      whole = false;
      // Refused: the token may have been revoked. The page then is the form.
      if (source.readyState === EventSource.CLOSED) fetch('/me').then((r) => { if (r.status === 401) location.reload(); }, () => {});
    });
  }
  setInterval(() => {
    const now = performance.now();
    if (link.live && now - link.heard > silentMs) link.live = false;
    if (!link.live && now - Math.max(link.heard, link.tried) > againMs && !(link.state && over && over(link.state))) connect();
    if (!link.live) return tellNews();
    for (const node of document.querySelectorAll('time[data-since]')) put(node, lastingText(link.now() - Number(node.dataset.since)));
  }, 1000);
  addEventListener('pagehide', () => link.source && link.source.close());
  addEventListener('pageshow', (event) => { if (event.persisted) connect(); });
  connect();
}

function foot(...links) {
  document.getElementById('foot').append(el('a', {href: '/status.json'}, 'These numbers as JSON'), ...links,
      el('a', {href: '/licence.txt'}, 'Licence of the charts'));
}
