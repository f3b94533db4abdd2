// The page of a tracker.

const letters = {f: 'free', b: 'busy', h: 'held', s: 'starting', x: 'trouble', '.': 'unknown'};
const words = {free: 'free', busy: 'busy', held: 'drained or locked', starting: 'starting', trouble: 'unreachable or quarantined', unknown: 'not known'};
const kindOf = {free: 'free', busy: 'busy', drained: 'held', locked: 'held', starting: 'starting', unreachable: 'trouble', quarantined: 'trouble'};
const slotMs = 30000, slots = 120, hourMs = 3600e3;
let me = {name: '', operates: false};

// The strip of the last hour: its runs of equal letters, from an hour before `now` on.
function runsOf(text, now) {
  const last = Math.floor(now / slotMs), runs = [];
  for (let slot = last - slots + 1; slot <= last; ++slot) {
    const kind = letters[text[slot % slots]] || 'unknown';
    const from = Math.max(0, slot * slotMs - (now - hourMs)), to = Math.min(hourMs, (slot + 1) * slotMs - (now - hourMs));
    if (to <= from) continue;
    if (runs.length && runs[runs.length - 1].kind === kind) runs[runs.length - 1].to = to;
    else runs.push({kind, from, to});
  }
  return runs;
}
function minutesOf(runs) {
  const minutes = {};
  for (const run of runs) minutes[run.kind] = (minutes[run.kind] || 0) + (run.to - run.from) / 60000;
  return minutes;
}
const minutesText = (minutes) => Object.entries(minutes).sort((a, b) => b[1] - a[1])
    .map(([kind, n]) => words[kind] + ' ' + (n < 1 ? '< 1' : Math.round(n)) + ' min').join(', ');

function drawStrip(node, text, now) {
  const at = Math.floor(now / 10000) * 10000;  // moves every 10 s
  if (node.text === text && node.at === at) return;
  Object.assign(node, {text, at});
  const runs = runsOf(text, at);
  node.style.setProperty('background', 'linear-gradient(to right, ' + runs.map((r) =>
      'var(--' + r.kind + ') ' + (100 * r.from / hourMs).toFixed(3) + '% ' + (100 * r.to / hourMs).toFixed(3) + '%').join(', ') + ')');
  const said = minutesText(minutesOf(runs));
  set(node, 'aria-label', 'the last hour: ' + said);
  set(node, 'title', said);
}

// --- What operators do ---
const said = el('p', {class: 'said', role: 'status', hidden: ''});
async function act(wish) {
  put(said, '');
  try {
    const response = await fetch('/act', {method: 'POST', headers: {'Content-Type': 'application/json', 'X-Autotune': '1'}, body: JSON.stringify(wish)});
    const text = await response.text();
    let answer = {};
    try { answer = JSON.parse(text); } catch (_) { answer = {error: text}; }
    put(said, answer.done || 'Refused: ' + (answer.error || response.status));
  } catch (_) {
    put(said, 'The tracker did not answer.');
  }
}
const button = (text, name, run) => el('button', {type: 'button', class: 'plain', 'aria-label': text + ' ' + name, onclick: run}, text);
function drain(id, name) {
  const note = prompt('Drain ' + name + ': who uses it may finish, and nobody gets it after that. Why? Those who wait see this.', '');
  if (note !== null) act({do: 'drain', pattern: id, note: note.slice(0, 60)});
}
function release(device) {
  if (confirm('Take ' + device.key + ' from ' + device.holder + ' now?')) act({do: 'release', lease: device.lease});
}

// --- Devices ---
const filter = el('input', {type: 'search', id: 'filter', oninput: () => link.state && drawDevices(link.state)});
const count = el('span', {class: 'hint', role: 'status'});
const deviceRows = el('tbody', {});
const stripNumbers = el('div', {}), stripDetails = el('details', {}, el('summary', {}, 'The numbers of these strips'), stripNumbers);
stripDetails.addEventListener('toggle', () => link.state && drawDevices(link.state));

function deviceRow(id) {
  const parts = {key: el('strong', {}), model: el('span', {}), state: el('span', {class: 'state'}), who: el('div', {class: 'clamp'}),
    job: el('div', {class: 'sub clamp'}), time: el('time', {}), strip: el('div', {class: 'strip', role: 'img'}), trials: el('span', {}),
    why: el('div', {class: 'clamp'}), brief: el('div', {class: 'sub brief clamp'}), drain: button('drain', id, () => drain(id, parts.key.textContent)),
    undrain: button('undrain', id, () => act({do: 'undrain', pattern: id})),
    release: button('release', id, () => release(link.state.devices[id]))};
  const row = el('tr', {id: 'device-' + id}, el('th', {scope: 'row', class: 'device'}, parts.key, el('div', {class: 'sub'}, id, parts.model), parts.brief), el('td', {}, parts.state),
      el('td', {class: 'who extra'}, parts.who, parts.job), el('td', {class: 'n'}, parts.time), el('td', {class: 'strips'}, parts.strip),
      el('td', {class: 'n more extra', dataset: {field: 'trials'}}, parts.trials), el('td', {class: 'why extra'}, parts.why),
      el('td', {class: 'acts'}, parts.drain, parts.undrain, parts.release));
  row.parts = parts;
  return row;
}
function updateDevice(row, id, state) {
  const device = state.devices[id], p = row.parts, kind = kindOf[device.state] || 'other';
  put(p.key, device.key);
  put(p.model, (device.model ? ' · ' + device.model : '') + (device.cores ? ' · ' + counted(device.cores, 'core') : ''));
  put(p.state, device.state);
  set(p.state, 'class', 'state is-' + kind);
  set(row, 'data-state', device.state);
  set(row, 'data-holder', device.holder || '');
  put(p.who, device.holder || '');
  put(p.job, device.job || '');
  const since = device.since || device.seen;
  show(p.time, Boolean(since));
  if (since) setAge(p.time, since);
  set(p.time, 'title', device.since ? 'leased at ' + momentText(device.since) : device.seen ? 'last report at ' + momentText(device.seen) : '');
  drawStrip(p.strip, device.strip, link.now());
  const trials = Object.entries(device.trials || {}), sum = trials.reduce((n, [, its]) => n + its, 0);
  put(p.trials, trials.length ? sum.toLocaleString('en') : '');
  set(p.trials, 'title', trials.map(([word, n]) => n + ' ' + word).join(', '));
  const why = [device.why, device.error && 'last error: ' + device.error].filter(Boolean).join('; ');
  put(p.why, why);
  put(p.brief, [device.holder && 'held by ' + device.holder + (device.job ? ' for ' + device.job : ''), why].filter(Boolean).join('; '));
  show(p.drain, me.operates && kind !== 'held');
  show(p.undrain, me.operates && Boolean(state.holds[id]));
  show(p.release, me.operates && Boolean(device.lease));
}
function drawDevices(state) {
  const terms = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (id) => { const d = state.devices[id]; return [id, d.key, d.state, d.model, d.holder, d.job, d.why].join(' ').toLowerCase(); };
  const all = Object.keys(state.devices);
  const ids = all.filter((id) => terms.every((term) => text(id).includes(term)))
      .sort((a, b) => state.devices[a].key.localeCompare(state.devices[b].key) || (a < b ? -1 : 1));
  keyed(deviceRows, ids, deviceRow, (row, id) => updateDevice(row, id, state));
  put(count, terms.length ? counted(ids.length, 'device') + ' of ' + all.length : '');
  show(noDevices, all.length === 0);
  show(deviceTable, all.length > 0);
  if (!stripDetails.open) return;
  const shown = ['free', 'busy', 'held', 'trouble', 'unknown'];
  stripNumbers.replaceChildren(plainTable('Minutes of the last hour', ['device', 'key', ...shown.map((k) => words[k])], ids.map((id) => {
    const minutes = minutesOf(runsOf(state.devices[id].strip, link.now()));
    return [id, state.devices[id].key, ...shown.map((k) => [(minutes[k] || 0).toFixed(0), minutes[k] || 0])];
  })));
}
const noDevices = el('p', {class: 'none-yet'}, 'No device has registered yet. Start a server: ', el('code', {}, 'rpc_server --key NAME'));
const deviceTable = el('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'devices'},
    el('table', {class: 'wide', id: 'devices-table'}, el('caption', {}, 'Each row is a device that a server offers.'),
        el('thead', {}, el('tr', {}, el('th', {scope: 'col'}, 'device'), el('th', {scope: 'col'}, 'state'), el('th', {scope: 'col', class: 'extra'}, 'held by'),
            el('th', {scope: 'col', class: 'n'}, 'for'), el('th', {scope: 'col'}, 'last hour', el('div', {class: 'hours'}, el('span', {}, '−60 min'), el('span', {}, 'now'))),
            el('th', {scope: 'col', class: 'n more extra'}, 'trials'), el('th', {scope: 'col', class: 'extra'}, 'note'), el('th', {scope: 'col', 'aria-label': 'actions'}))),
        deviceRows));

// --- Queue, holds, faults ---
const queueRows = el('tbody', {}), nobody = el('p', {class: 'none-yet'}, 'Nobody waits.');
const queueTable = el('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'queue'},
    el('table', {class: 'wide', id: 'queue-table'}, el('thead', {}, el('tr', {}, ['place', 'for a device', 'who', 'for', 'why'].map((t, i) =>
        el('th', {scope: 'col', class: i === 0 || i === 3 ? 'n' : null}, t)))), queueRows));
function queueRow() {
  const parts = {place: el('td', {class: 'n'}), key: el('div', {class: 'clamp'}), who: el('div', {class: 'clamp'}), job: el('div', {class: 'sub clamp'}), time: el('time', {}), why: el('div', {class: 'clamp'})};
  const row = el('tr', {}, parts.place, el('td', {}, parts.key), el('td', {class: 'who'}, parts.who, parts.job), el('td', {class: 'n'}, parts.time), el('td', {class: 'why'}, parts.why));
  row.parts = parts;
  return row;
}
function drawQueue(state) {
  const ids = Object.keys(state.queue).sort(), shown = ids.slice(0, 200);
  keyed(queueRows, shown, queueRow, (row, id) => {
    const waiting = state.queue[id], p = row.parts;
    put(p.place, String(waiting.place));
    put(p.key, waiting.key);
    put(p.who, waiting.holder || '');
    put(p.job, waiting.job || '');
    setAge(p.time, waiting.since);
    put(p.why, waiting.why || '');
  });
  show(queueTable, ids.length > 0);
  put(nobody, ids.length > shown.length ? 'and ' + (ids.length - shown.length) + ' more' : 'Nobody waits.');
  show(nobody, ids.length === 0 || ids.length > shown.length);
}
const holdList = el('ul', {class: 'faults'}), faultList = el('ul', {class: 'faults'}), noFaults = el('p', {class: 'none-yet'}, 'Nothing.');
function drawNotes(state) {
  keyed(holdList, Object.keys(state.holds).sort(), (id) => {
    const parts = {text: el('span', {}), end: button('undrain', id, () => act({do: 'undrain', pattern: id}))};
    const row = el('li', {}, parts.text, ' ', parts.end);
    row.parts = parts;
    return row;
  }, (row, id) => {
    const hold = state.holds[id];
    put(row.parts.text, id + ': ' + (hold.how === 'lock' ? 'locked' : 'drained') + ' by ' + hold.who +
        (hold.until ? ' until ' + momentText(hold.until) : '') + (hold.note ? ': ' + hold.note : ''));
    show(row.parts.end, me.operates);
  });
  const absent = Object.entries(state.absent).map(([key, seen]) => ({at: seen, text: 'no device `' + key + '` is connected any more'}));
  const faults = [...state.faults, ...absent].sort((a, b) => b.at - a.at).slice(0, 30);
  keyed(faultList, faults.map((f) => f.at + ' ' + f.text), (id) => {
    const at = Number(id.slice(0, id.indexOf(' ')));
    return el('li', {}, el('time', {}, momentText(at)), ' ' + id.slice(id.indexOf(' ') + 1));
  }, () => {});
  show(noFaults, faults.length === 0);
  show(holdSection, holdList.children.length > 0);
}

// --- Runs ---
const jobCards = el('div', {class: 'jobs'}), noJobs = el('p', {class: 'none-yet'}, 'No run has told the tracker about itself.');
const failuresOf = (outcomes) => Object.entries(outcomes).filter(([word, n]) => word !== 'ok' && n > 0).sort((a, b) => b[1] - a[1]);
const outcomesText = (outcomes) => failuresOf(outcomes).map(([word, n]) => n + ' ' + word).join(', ') || 'none';
const trialsText = (job) => job.trials.toLocaleString('en') + (job.planned ? ' of ' + job.planned.toLocaleString('en') : '');
const bestText = (job) => job.best_ms ? timeText(1000 * job.best_ms) : '–';

function jobCard(id) {
  const curve = liveFigure({id: 'curve-' + id, label: 'Best time of all measured kernels together, over the trials of this run',
    caption: 'Best time of all measured kernels together, over trials. It may rise while further kernels are measured for the first time.',
    head: ['after trials', 'best so far'], size: 'small'});
  const parts = {name: el('h3', {class: 'clamp'}), who: el('p', {class: 'sub clamp'}), page: el('p', {class: 'sub clamp'}), url: el('a', {rel: 'noopener noreferrer', target: '_blank'}), bar: el('progress', {'aria-label': 'trials'}), trials: el('dd', {}), best: el('dd', {}),
    rate: el('dd', {}), began: el('time', {}), failed: el('dd', {class: 'clamp'}), task: el('dd', {class: 'clamp'}), silent: el('p', {class: 'bad'}), curve};
  const card = el('article', {class: 'job', id: 'job-' + id}, parts.name, parts.who, parts.page, parts.bar, parts.silent,
      el('dl', {class: 'facts'}, el('dt', {}, 'trials'), parts.trials, el('dt', {}, 'best so far'), parts.best, el('dt', {}, 'speed'), parts.rate,
          el('dt', {}, 'for'), el('dd', {}, parts.began), el('dt', {}, 'failed or skipped'), parts.failed, el('dt', {}, 'now at'), parts.task), curve.node);
  card.parts = parts;
  return card;
}
// The run's own page. Only browsers on its host reach it, so it is a link for these alone.
function updatePage(p, job) {
  const url = job.silent ? null : webUrl(job.page);
  show(p.page, Boolean(url));
  if (!url) return;
  const near = !isLoopback(url.hostname) || (job.here && isLoopback(location.hostname));
  const key = near + ' ' + url.href;
  if (p.page.key === key) return;
  p.page.key = key;
  if (near) setLink(p.url, url);
  p.page.replaceChildren('Its own page' + (near ? ': ' : ', for browsers on its host: '), near ? p.url : url.href);
}
// Where the report of a run is that has ended: a link if its owner has published it, or the command that makes it.
function updateReport(p, job) {
  const url = webUrl(job.report);
  show(p.report, Boolean(url));
  if (url) setLink(p.url, url);
  show(p.make, !url && Boolean(job.database));
  if (!url && job.database) put(p.command, 'autotune report --db ' + shellWord(job.database) + ' -o report.html');
}
function updateJob(card, job) {
  const p = card.parts;
  put(p.name, job.network || '(no name)');
  put(p.who, (job.holder || '') + (job.key ? ' on devices ' + job.key : ''));
  updatePage(p, job);
  show(p.bar, Boolean(job.planned));
  if (job.planned) { p.bar.max = job.planned; p.bar.value = Math.min(job.trials, job.planned); }
  put(p.trials, trialsText(job));
  set(p.trials, 'data-value', String(job.trials));
  put(p.best, bestText(job));
  set(p.best, 'data-value', String(job.best_ms || ''));
  put(p.rate, job.rate ? digits(job.rate, 2) + ' trials/s' : '–');
  setAge(p.began, job.began);
  put(p.failed, outcomesText(job.outcomes));
  put(p.task, job.phase || job.task || '–');
  show(p.silent, Boolean(job.silent));
  put(p.silent, job.silent ? 'No word from the tuner since ' + momentText(job.silent) + ': it may have been killed.' : '');
  const points = Object.entries(job.curve).map(([x, y]) => ({x: Number(x), y: 1000 * y})).sort((a, b) => a.x - b.x);
  const shape = JSON.stringify([points, job.trials, job.planned]);
  show(p.curve.node, points.length > 0);
  if (!points.length || card.shape === shape) return;
  card.shape = shape;
  const last = points[points.length - 1], drawnPoints = [...points, {x: Math.max(job.trials, last.x), y: last.y}];
  p.curve.set(progressConfig({points: drawnPoints, trials: Math.max(job.planned, job.trials), levels: []}),
      points.map((q) => [[String(q.x), q.x], [timeText(q.y), q.y / 1000]]), trialsText(job) + ' trials, best ' + bestText(job));
}
const endedRows = el('tbody', {});
const endedTable = el('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'ended runs'},
    el('table', {class: 'wide', id: 'ended-table'}, el('caption', {}, 'Runs that have ended in the last 24 hours'), el('thead', {}, el('tr', {},
        el('th', {scope: 'col'}, 'network'), el('th', {scope: 'col', class: 'extra'}, 'who'), el('th', {scope: 'col', class: 'n extra'}, 'trials'),
        el('th', {scope: 'col', class: 'n'}, 'best'), el('th', {scope: 'col', class: 'n extra'}, 'took'), el('th', {scope: 'col', class: 'n'}, 'ended'),
        el('th', {scope: 'col'}, 'result and report'))), endedRows));
function drawJobs(state) {
  const latest = (a, b) => state.jobs[b].began - state.jobs[a].began || (a < b ? -1 : 1);
  const all = Object.keys(state.jobs), running = all.filter((id) => !state.jobs[id].ended).sort(latest).slice(0, 24);
  for (const [id, card] of jobCards.nodes || []) if (!running.includes(id)) card.parts.curve.drop();
  keyed(jobCards, running, jobCard, (card, id) => updateJob(card, state.jobs[id]));
  const ended = all.filter((id) => state.jobs[id].ended).sort((a, b) => state.jobs[b].ended - state.jobs[a].ended).slice(0, 100);
  keyed(endedRows, ended, () => {
    const parts = {network: el('div', {class: 'clamp'}), who: el('div', {class: 'clamp'}), trials: el('td', {class: 'n extra'}), best: el('td', {class: 'n'}),
      took: el('td', {class: 'n extra'}), ended: el('td', {class: 'n'}), result: el('div', {class: 'clamp'}), url: el('a', {rel: 'noopener noreferrer', target: '_blank'}), command: el('code', {})};
    parts.report = el('div', {class: 'sub where'}, 'Report: ', parts.url);
    parts.make = el('div', {class: 'sub where'}, 'Report, on its host: ', parts.command);
    const row = el('tr', {}, el('td', {class: 'why'}, parts.network), el('td', {class: 'who extra'}, parts.who), parts.trials, parts.best, parts.took, parts.ended,
        el('td', {class: 'why'}, parts.result, parts.report, parts.make));
    row.parts = parts;
    return row;
  }, (row, id) => {
    const job = state.jobs[id], p = row.parts;
    put(p.network, job.network || '(no name)');
    put(p.who, job.holder || '');
    put(p.trials, trialsText(job));
    put(p.best, bestText(job));
    put(p.took, job.seconds ? lastingText(1000 * job.seconds) : '–');
    put(p.ended, momentText(job.ended));
    updateReport(p, job);
    put(p.result, job.result || job.state);
  });
  show(endedTable, ended.length > 0);
  show(noJobs, all.length === 0);
}

// --- The page ---
const section = (id, title, ...children) => el('section', {id, 'aria-labelledby': id + '-title'}, el('h2', {id: id + '-title'}, title), children);
const holdSection = section('holds', 'Devices that administrators hold', holdList);
const totals = {devices: el('span', {class: 'number'}), of: el('small', {}), waiting: el('span', {class: 'number'}), grants: el('span', {class: 'number'}),
  expired: el('small', {}), up: el('time', {}), epoch: el('small', {})};
const total = (title, value, small) => el('div', {class: 'tile'}, el('dt', {}, title), el('dd', {}, value, small || null));
const signed = el('span', {}), signIn = el('a', {href: '/login'}, 'Sign in with a token');

function drawTotals(state) {
  const kinds = {};
  for (const device of Object.values(state.devices)) kinds[kindOf[device.state] || 'other'] = (kinds[kindOf[device.state] || 'other'] || 0) + 1;
  put(totals.devices, String(Object.keys(state.devices).length));
  put(totals.of, ['free', 'busy', 'held', 'starting', 'trouble', 'other'].filter((k) => kinds[k]).map((k) => kinds[k] + ' ' + (words[k] || k)).join(', ') || ' ');
  put(totals.waiting, String(Object.keys(state.queue).length));
  put(totals.grants, state.grants.toLocaleString('en'));
  put(totals.expired, state.expired + ' expired');
  setAge(totals.up, state.started);
  put(totals.epoch, (state.recovering ? 'recovering, ' : '') + 'started ' + counted(state.epoch, 'time'));
}

document.getElementById('main').replaceChildren(said,
    el('dl', {class: 'tiles'}, total('devices', totals.devices, totals.of), total('waiting', totals.waiting), total('leases granted', totals.grants, totals.expired),
        total('tracker up', totals.up, totals.epoch)),
    section('devices', 'Devices, and what they did in the last hour', el('p', {class: 'filter'}, el('label', {for: 'filter'}, 'Show rows with '), filter, ' ', count),
        el('ul', {class: 'keys', 'aria-label': 'colours'}, ['free', 'busy', 'held', 'trouble', 'unknown'].map((kind) =>
            el('li', {}, el('span', {class: 'swatch ' + kind}), words[kind]))), noDevices, deviceTable, stripDetails),
    section('jobs', 'Tuning runs', noJobs, jobCards, endedTable), section('queue', 'Who waits for a device, and why', queueTable, nobody), holdSection,
    section('faults', 'Faults and absences, the latest first', faultList, noFaults));
foot(el('a', {href: '/metrics'}, 'Metrics for Prometheus'), signIn, signed);
fetch('/me').then((response) => response.json()).then((its) => {
  me = its;
  put(signed, me.name ? 'Signed in as ' + me.name + (me.operates ? ', who may drain and release' : '') : '');
  show(signIn, !me.operates);
  show(said, me.operates);
  if (link.state) drawDevices(link.state);
}).catch(() => {});

follow({title: el('h1', {}, 'The farm'), who: 'the tracker', draw(state) {
  drawTotals(state);
  drawDevices(state);
  drawJobs(state);
  drawQueue(state);
  drawNotes(state);
}});
