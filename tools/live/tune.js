// The page of a tuning run.

const section = (id, title, ...children) => el('section', {id, 'aria-labelledby': id + '-title'}, el('h2', {id: id + '-title'}, title), children);
const pointsOf = (curve, scale) => Object.entries(curve || {}).map(([x, y]) => ({x: Number(x), y: scale * y})).sort((a, b) => a.x - b.x);
const upTo = (points, x) => points.length && points[points.length - 1].x < x ? [...points, {x, y: points[points.length - 1].y}] : points;
const msText = (ms) => ms === null || ms === undefined ? '–' : timeText(1000 * ms);

const best = liveFigure({id: 'best', label: 'Best time of all measured kernels together, over trials', head: ['after trials', 'best so far'],
  caption: 'Sum over the kernels of the network of their best times so far. It rises while further kernels are measured for the first time.'});
const taskBest = liveFigure({id: 'task-best', label: 'Best time of one task, over trials', head: ['after trials', 'best so far'],
  caption: 'Best time of one call so far, of the task chosen above. Trials are those of the whole run.'});
const speeds = liveFigure({id: 'speeds', label: 'Trials per second, over the time of the run', head: ['second', 'trials per second'], size: 'small',
  caption: 'Candidates that were built and measured per second, over at least 5 s each.'});
const failures = liveFigure({id: 'failures', label: 'Candidates without a time, by reason', head: ['reason', 'candidates', 'the first one'], size: 'small',
  caption: 'Rejected and cut off candidates are normal: their tiles do not fit, or they are much slower than the best.'});

const t = {trials: el('span', {class: 'number', dataset: {field: 'trials'}}), planned: el('small', {}), best: el('span', {class: 'number', dataset: {field: 'best_ms'}}),
  measured: el('small', {}), speed: el('span', {class: 'number', dataset: {field: 'rate'}}), left: el('small', {}), phase: el('span', {}), time: el('time', {})};
const total = (title, value, small) => el('div', {class: 'tile'}, el('dt', {}, title), el('dd', {}, value, small || null));
const bar = el('progress', {max: 1, 'aria-label': 'progress of the run'});
const waits = el('div', {class: 'notes', role: 'status', hidden: ''});

let shownTask = null;  // the reader's choice; null: the task of the latest round
const choice = el('select', {id: 'task', onchange: () => { shownTask = choice.value || null; drawTask(link.state); }});
const taskRows = el('tbody', {});
const rowsTable = el('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'tasks'},
    el('table', {class: 'wide', id: 'tasks-table'}, el('caption', {}, 'Tasks that have been tried'), el('thead', {}, el('tr', {},
        el('th', {scope: 'col'}, 'task'), el('th', {scope: 'col', class: 'name'}, 'operators and shapes'), el('th', {scope: 'col', class: 'n extra'}, 'calls'),
        el('th', {scope: 'col', class: 'n'}, 'default'), el('th', {scope: 'col', class: 'n'}, 'best'), el('th', {scope: 'col', class: 'n'}, 'gain'),
        el('th', {scope: 'col', class: 'n extra'}, 'trials'))), taskRows));
const chosen = el('div', {}), choiceSection = section('choice', 'The final choice, measured in the whole network', chosen);
const noteList = el('ul', {class: 'faults'}), noteSection = section('notes', 'Notes', noteList);
const what = el('p', {class: 'sub'});

function drawTask(state) {
  if (!state) return;
  const ids = Object.keys(state.tasks).sort((a, b) => state.tasks[a].label.localeCompare(state.tasks[b].label) || (a < b ? -1 : 1));
  keyed(choice, ['', ...ids], (id) => el('option', {value: id}), (option, id) =>
      put(option, id ? shortName(state.tasks[id].label) + ' (' + shortId(id) + ')' : 'the task of the latest round'));
  const hash = shownTask && state.tasks[shownTask] ? shownTask : state.round && state.round.hash;
  if (choice.value !== (shownTask || '')) choice.value = shownTask || '';
  if (!hash || !state.tasks[hash]) return;
  const task = state.tasks[hash], points = pointsOf(task.curve, 1000);
  if (!points.length) return;
  taskBest.set(progressConfig({points: upTo(points, state.round.trials), trials: Math.max(state.round.planned_trials, state.round.trials), levels: []}),
      points.map((q) => [[String(q.x), q.x], [timeText(q.y), q.y / 1000]]), shortName(task.label) + ': ' + msText(task.best_ms));
}

const seriesConfig = (points) => ({type: 'line', data: {datasets: [{label: 'trials per second', data: points, borderColor: colour('at'), backgroundColor: colour('at'),
  borderWidth: 2, pointRadius: points.length > 60 ? 0 : 2.5}]}, options: {parsing: false, interaction: {mode: 'nearest', axis: 'x', intersect: false},
  scales: {x: {type: 'linear', min: 0, title: {display: true, text: 'seconds since the run began'}}, y: {beginAtZero: true, grace: '5%', title: {display: true, text: 'trials per second'}}},
  plugins: {legend: {display: false}}}});

function drawCharts(state) {
  const round = state.round;
  if (!round) return;
  const points = pointsOf(state.curve, 1000);
  if (points.length) {
    best.set(progressConfig({points: upTo(points, round.trials), trials: Math.max(round.planned_trials, round.trials), levels: []}),
        points.map((q) => [[String(q.x), q.x], [timeText(q.y), q.y / 1000]]), round.trials + ' trials, best ' + msText(round.best_ms));
  }
  const rates = pointsOf(state.speeds, 1);
  if (rates.length) speeds.set(seriesConfig(rates), rates.map((q) => [[String(q.x), q.x], [digits(q.y, 3), q.y]]), 'Now ' + digits(rates[rates.length - 1].y, 2));
  const first = (state.end && state.end.first_errors) || {};
  const items = Object.entries(round.outcomes).filter(([name, n]) => name !== 'ok' && n > 0).sort((a, b) => b[1] - a[1]).map(([name, n]) => ({name, count: n}));
  show(failureSection.querySelector('figure'), items.length > 0);
  show(noFailures, items.length === 0);
  if (items.length) failures.set(countsConfig(items), items.map((i) => [i.name, [String(i.count), i.count], first[i.name] || '–']), items.map((i) => i.count + ' ' + i.name).join(', '));
}
const noFailures = el('p', {class: 'none-yet'}, 'None.');
const failureSection = section('failed', 'Candidates without a time', noFailures, failures.node);

function drawRows(state) {
  const ended = {};
  for (const task of state.end ? state.end.tasks : []) ended[task.hash] = task;
  const time = (id) => ended[id] ? (ended[id].share || 0) : 0;
  const ids = [...new Set([...Object.keys(state.tasks), ...Object.keys(ended)])].sort((a, b) => time(b) - time(a) || (a < b ? -1 : 1));
  keyed(taskRows, ids, (id) => {
    const parts = {label: el('div', {class: 'label clamp'}), calls: el('td', {class: 'n extra'}), base: el('td', {class: 'n'}), best: el('td', {class: 'n', dataset: {field: 'best'}}),
      gain: el('td', {class: 'n'}), trials: el('td', {class: 'n extra'})};
    const row = el('tr', {id: 'task-' + id}, el('td', {class: 'word'}, shortId(id)), el('td', {class: 'name'}, parts.label), parts.calls, parts.base, parts.best, parts.gain, parts.trials);
    row.parts = parts;
    return row;
  }, (row, id) => {
    const task = state.tasks[id], end = ended[id], p = row.parts, tuned = end ? end.tuned_ms : task.best_ms, base = end && end.default_ms;
    put(p.label, (end || {}).task || (task || {}).label || '–');
    put(p.calls, end ? String(end.weight) : '');
    put(p.base, base ? msText(base) : '');
    put(p.best, msText(tuned));
    set(p.best, 'data-value', tuned ? String(tuned) : '');
    put(p.gain, base && tuned ? (base / tuned).toFixed(2) + '×' : '');
    put(p.trials, end ? String(end.trials) : '');
  });
  show(rowsTable, ids.length > 0);
}

function drawChoice(state) {
  const its = state.end && state.end.choice, key = JSON.stringify([its, state.saved, state.interrupted]);
  show(choiceSection, Boolean(its || state.saved || state.interrupted));
  if (chosen.key === key) return;
  chosen.key = key;
  const lines = [state.saved && state.saved.gain, ...(its ? its.sentences : []), state.end && state.end.why_ended,
    state.interrupted && 'Interrupted after ' + counted(state.interrupted.trials, 'trial') + '.' + (state.interrupted.resume ? ' Go on with: ' + state.interrupted.resume : '')];
  chosen.replaceChildren(...[...new Set(lines.filter(Boolean))].map((line) => el('p', {}, line)));
  if (its && its.comparisons.length) {
    chosen.append(plainTable('The network with and without the tuned schedules', ['threads', 'untuned', 'tuned', 'times as fast', 'from (95 %)', 'to'], its.comparisons.map((c) =>
        [[String(c.threads), c.threads], [msText(c.untuned_ms), c.untuned_ms], [msText(c.tuned_ms), c.tuned_ms], [timesText(c.speedup), c.speedup],
          [timesText(c.speedup_low), c.speedup_low], [timesText(c.speedup_high), c.speedup_high]])));
  }
  for (const command of state.saved ? state.saved.next : []) chosen.append(el('p', {class: 'sub'}, el('code', {}, command)));
}

function drawTotals(state) {
  const begin = state.begin, round = state.round;
  if (begin) {
    put(title, 'Tuning ' + begin.model);
    const name = 'autotune: ' + begin.model;
    if (document.title !== name) document.title = name;
    put(what, 'for ' + begin.machine + (begin.key ? ', on devices ' + begin.key : '') + ', ' + begin.tasks + (begin.tasks < begin.network_tasks ? ' of ' + begin.network_tasks : '') + ' tasks');
  }
  put(t.trials, round ? round.trials.toLocaleString('en') : '0');
  set(t.trials, 'data-value', String(round ? round.trials : 0));
  put(t.planned, begin && begin.trials ? 'of ' + begin.trials.toLocaleString('en') + (round && round.resumed_trials ? ', ' + round.resumed_trials + ' from earlier runs' : '') : 'until the time is over');
  put(t.best, msText(round && round.best_ms));
  set(t.best, 'data-value', round && round.best_ms ? String(round.best_ms) : '');
  put(t.measured, state.confirmed ? 'measured again, in turns' : round ? round.tasks_measured + ' of ' + round.tasks + ' tasks measured' : ' ');
  put(t.speed, round && round.trials_per_second ? digits(round.trials_per_second, 2) : '–');
  set(t.speed, 'data-value', round && round.trials_per_second ? String(round.trials_per_second) : '');
  put(t.left, round && round.seconds_left ? 'about ' + lastingText(1000 * round.seconds_left) + ' left' : ' ');
  put(t.phase, state.phase);
  if (state.ended) {
    show(t.time, true);
    delete t.time.dataset.since;
    put(t.time, 'after ' + lastingText(state.ended - state.began));
  } else if (state.began) setAge(t.time, state.began);
  bar.value = state.phase === 'searching' ? (begin && begin.trials && round ? Math.min(1, round.trials / begin.trials) : 0) : state.done;
  const reasons = Object.entries(state.waits);
  show(waits, reasons.length > 0);
  keyed(waits, reasons.map(([name]) => name), (name) => {
    const parts = {text: el('span', {}), time: el('time', {})};
    const row = el('p', {}, 'Waiting for ' + name + ' for ', parts.time, ': ', parts.text);
    row.parts = parts;
    return row;
  }, (row, name) => {
    put(row.parts.text, state.waits[name].reason);
    setAge(row.parts.time, state.waits[name].since);
  });
  keyed(noteList, state.notes.map((text, i) => i + ' ' + text), (id) => el('li', {}, id.slice(id.indexOf(' ') + 1)), () => {});
  show(noteSection, state.notes.length > 0);
}

const title = el('h1', {}, 'A tuning run');
document.getElementById('main').replaceChildren(what, el('dl', {class: 'tiles'}, total('trials', t.trials, t.planned), total('best so far', t.best, t.measured),
    total('trials per second', t.speed, t.left), total('now', t.phase, el('small', {}, t.time))), el('p', {}, bar), waits,
    el('div', {class: 'pair'}, section('network', 'How the network became faster', best.node),
        section('one-task', 'How one task became faster', el('p', {}, el('label', {for: 'task'}, 'Task '), choice), taskBest.node)),
    el('div', {class: 'pair'}, section('rate', 'How fast the search is', speeds.node), failureSection),
    choiceSection, section('tasks', 'Tasks', rowsTable), noteSection);
const report = el('p', {class: 'sub'}, el('a', {href: '/report', target: '_blank'}, 'Report of the run so far'),
    ' – each kernel, its schedule and its history, from the database. The run measures meanwhile, so look seldom.');
const command = el('code', {}), later = el('p', {class: 'sub'}, 'Report of the run: ', command);
function drawReport(state) {
  show(report, Boolean(state.report_command && state.round && !state.ended));
  show(later, Boolean(state.report_command && state.ended));
  put(command, state.report_command || '');
}
what.after(report, later);
foot(el('a', {href: '/metrics'}, 'Metrics for Prometheus'));

follow({title, who: 'the tuning run', draw(state) {
  drawTotals(state);
  drawReport(state);
  drawCharts(state);
  drawTask(state);
  drawRows(state);
  drawChoice(state);
}, over: (state) => state.ended ? 'The run has ' + (state.interrupted ? 'been interrupted' : 'ended') + ' at ' + clockText(state.ended) + '; this is its last state' : ''});
