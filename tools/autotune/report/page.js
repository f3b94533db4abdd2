// Makes the page of the report, or of the comparison, that is in the element `data`.

const data = JSON.parse(document.getElementById('data').textContent);
const main = document.getElementById('main');
const section = (id, title, ...children) => el('section', {id, 'aria-labelledby': id + '-title'}, el('h2', {id: id + '-title'}, title), children);
const dash = '–';

function notesOf(report) {
  const notes = [...(report.notes || [])];
  if (report.not_measured) notes.unshift('Not measured on this machine: ' + report.not_measured);
  if (report.time && !report.agree) notes.unshift('Network and kernels were timed in turns, and ' + report.agreement);
  return notes.length ? el('div', {class: 'notes', role: 'note'}, notes.map((note) => el('p', {}, note))) : null;
}

// How the report came about.
function originOf(report, title) {
  return el('div', {}, title ? el('h2', {}, title) : null, facts([
    ['machine', report.machine], ['compiled for', report.target], ['target', report.target_text],
    ['threads', report.threads ? String(report.threads) : ''], ['program', (report.versions || []).join('; ')],
    ['source', report.source], ['command', report.command ? el('code', {}, report.command) : ''], ['made', dateText(report.created_at)]]));
}

function reasonsOf(kernel) {
  const reasons = [kernel.why, ...kernel.also].filter(Boolean);
  return reasons.length ? el('ul', {}, reasons.map((r) => el('li', {}, r.sentence))) : null;
}

const scheduleOf = (kernel) => el('div', {}, el('strong', {}, 'Schedule'),
    el('pre', {tabindex: 0}, kernel.trace || '(not in this page)'));

function kernelFacts(k) {
  const h = k.history;
  return facts([
    ['task', k.task], ['kernel', k.kernel], ['operators and shapes', k.label],
    ['algorithm', k.alternative + (k.tuned ? ', tuned' : ', default schedule')], ['Winograd’s algorithm', k.winograd],
    ['time of all ' + counted(k.calls, 'call'), k.time ? timeText(k.time.median_us) + ' (' + (intervalText(k.time) || 'no interval') +
        '; ' + counted(k.time.samples, 'sample') + ')' : ''],
    ['slowest call', k.slowest_call_us ? timeText(k.slowest_call_us) : ''],
    ['least time by the roofline', k.roof_us ? timeText(k.roof_us) + ', bound by ' + k.bound : ''],
    ['speed', k.gflops !== null ? rateText(k.gflops, 'GFLOPS') + ', ' + rateText(k.gbytes_per_second, 'GB/s') : ''],
    ['work of a call', digits(k.flops / 1e6, 4) + ' MFLOP, ' + bytesText(k.bytes)],
    ['records', h ? counted(h.records, 'record') + ', ' + counted(h.trials, 'trial') + ': ' +
        Object.entries(h.outcomes).map(([name, n]) => n + ' ' + name).join(', ') : 'none in the database'],
    ['default schedule, alone', h && h.default_us ? timeText(h.default_us) : ''],
    ['best record, alone', h && h.best_us ? timeText(h.best_us) + ' (' + h.best_record + ')' : ''],
    ['nodes', k.nodes.length > 12 ? k.nodes.slice(0, 12).join(', ') + ' and ' + (k.nodes.length - 12) + ' more' : k.nodes.join(', ')]]);
}

const nameCell = (kernel) => el('div', {}, el('div', {class: 'label clamp'}, kernel.label || dash),
    kernel.why ? el('div', {class: 'why clamp'}, kernel.why.sentence) : null);
const roofChip = (share) => share === null || share === undefined ? dash : el('span', {class: 'chip ' + roofClass(share)}, percentText(share));
const failedOf = (k) => k.history ? k.history.records - (k.history.outcomes.ok || 0) : null;
const gainOf = (k) => k.history && k.history.default_us && k.history.best_us ? k.history.default_us / k.history.best_us : null;

function kernelTable(report) {
  const database = report.kind === 'database';
  const column = (key, title, value, text, more) => Object.assign({key, title, value, cell: (k) => text(value(k)), number: true}, more);
  const columns = [
    {key: 'task', title: 'task', value: (k) => k.task, cell: (k) => shortId(k.task) || '(copy)'},
    {key: 'label', title: database ? 'task and what limits it' : 'kernel and what limits it', class: 'name', value: (k) => k.label, cell: nameCell},
    column('calls', 'calls', (k) => k.calls, String, {extra: true, help: 'in one run of the network'}),
    column('time', 'time', (k) => k.time && k.time.median_us, timeText, {help: 'median of all calls in one run of the network'}),
    column('share', '% time', (k) => k.share, percentText),
    column('roof_share', '% roof', (k) => k.roof_share, roofChip, {help: '100 %: as fast as the machine allows'}),
    {key: 'bound', title: 'bound by', value: (k) => k.bound, cell: (k) => k.bound || dash, extra: true, class: 'word'},
    column('gflops', 'GFLOPS', (k) => k.gflops, (v) => v === null ? dash : digits(v, 4), {more: true}),
    column('gbytes', 'GB/s', (k) => k.gbytes_per_second, (v) => v === null ? dash : digits(v, 3), {more: true}),
    column('gain', 'gain', gainOf, (v) => v === null ? dash : v.toFixed(2) + '×', {extra: true, help: 'default time / best time, of the kernel alone'}),
    column('trials', 'trials', (k) => k.history && k.history.trials, (v) => v === null || v === undefined ? dash : String(v), {more: true}),
    column('failed', 'failed', failedOf, (v) => v === null ? dash : String(v), {more: true, help: 'candidates that failed or were refused'})];
  return sortableTable({id: 'kernels', caption: 'Open a row for its schedule. A title sorts.',
    columns: columns.filter((c) => !database || c.key !== 'calls'), rows: report.kernels, sort: 'time', rowId: (k) => 'task-' + k.task,
    textOf: (k) => [k.task, k.kernel, k.label, k.alternative, k.bound, k.why ? k.why.sentence : '', ...k.nodes].join(' '),
    detail: (k) => el('div', {}, kernelFacts(k), reasonsOf(k), scheduleOf(k))});
}

function tilesOf(report) {
  const roof = report.kernels.filter((k) => k.roof_us !== null && k.time);
  const sum = (list, f) => list.reduce((total, item) => total + f(item), 0);
  const share = roof.length ? sum(roof, (k) => k.roof_us) / sum(roof, (k) => k.time.median_us) : null;
  const trials = sum(report.kernels, (k) => k.history ? k.history.trials : 0);
  const tuned = report.kernels.filter((k) => k.tuned).length;
  return el('dl', {class: 'tiles'},
      report.time ? tile('one run of the network', number('network_us', report.time.median_us, timeText(report.time.median_us)), intervalText(report.time)) : null,
      report.kernels_us !== null ? tile(report.kind === 'database' ? 'one call of each task' : 'sum of its kernels',
          number('kernels_us', report.kernels_us, timeText(report.kernels_us)), report.kind === 'database' ? 'each alone' : report.agree ? report.agreement : 'see the note') : null,
      share !== null ? tile('of the machine’s roof', number('roof_share', share, percentText(share)), 'of all kernels together') : null,
      tile(report.kind === 'database' ? 'tasks' : 'kernels', number('kernels', report.kernels.length, String(report.kernels.length)),
          report.kind === 'database' ? '' : tuned + ' by tuned schedules'),
      tile('trials in the database', number('trials', trials, trials.toLocaleString('en')), counted(sum(report.failures, (f) => f.count), 'other outcome')));
}

function timeSection(report, choose) {
  const timed = report.kernels.filter((k) => k.time);
  if (!timed.length) return null;
  const title = shortName(timed[0].label) + ' takes ' + (100 * timed[0].share).toFixed(0) + ' % of the time' +
      (timed.length > 5 ? '; the five slowest of ' + timed.length + ' take ' + (100 * timed.slice(0, 5).reduce((s, k) => s + k.share, 0)).toFixed(0) + ' %' : '');
  return section('time', title, timeBar(report.kernels, report.kernels_us, 'Kernels by their share of the time', choose),
      el('ul', {class: 'keys'}, timed.slice(0, 5).map((k) => el('li', {}, el('span', {class: 'swatch ' + roofClass(k.roof_share)}),
          shortName(k.label) + ': ' + percentText(k.share)))),
      el('p', {class: 'hint'}, 'Width: share of the time' + (report.kind === 'database' ? ' of one call of each task' : ' of one run') +
          '. Colour: speed relative to what the machine allows. ', el('a', {href: '#kernels'}, 'All numbers are in the table.')), roofKeys());
}

const dotOf = (k, from) => ({kernel: k, x: k.flops / k.bytes, y: k.gflops, from});
const isDot = (k) => k.gflops > 0 && k.bytes > 0 && k.flops > 0;

function rooflineTitle(kernels) {
  const far = kernels.filter((k) => k.roof_share < 0.5);
  const share = far.reduce((sum, k) => sum + k.share, 0);
  if (!far.length) return 'All kernels with arithmetic run at half of their roof or more';
  return counted(far.length, 'kernel') + ', with ' + (100 * share).toFixed(0) + ' % of the time, ' +
      (far.length === 1 ? 'runs' : 'run') + ' below half of what the machine allows';
}

function rooflineSection(report) {
  const shown = report.kernels.filter(isDot);
  if (!report.ceilings || !shown.length) return null;
  const before = (k) => k.tuned && report.kind === 'network' && gainOf(k) > 1.01 ? {x: k.flops / k.bytes, y: k.gflops / gainOf(k)} : null;
  const dots = shown.map((k) => dotOf(k, before(k)));
  const left = report.kernels.length - shown.length;
  const peak = Math.max(...report.ceilings.peaks.map((p) => p.gflops)), isWinograd = (k) => k.winograd.startsWith('used');
  return section('roofline', rooflineTitle(shown), rooflineFigure({id: 'roofline-chart', ceilings: report.ceilings, dots,
    label: 'Roofline: speed over arithmetic intensity of ' + counted(shown.length, 'kernel') + '. ' + rooflineTitle(shown) + '.',
    caption: 'A dot is a kernel, its area the share of the time. Lines are the measured limits: a kernel cannot be above the line of the level that holds its data' +
        (shown.some((k) => k.roof_share > 1 && isWinograd(k)) ? '; Winograd’s algorithm can, since the operations of the direct one are counted' : '') + '.' +
        (shown.some((k) => k.gflops > peak && k.bound !== 'arithmetic' && !isWinograd(k))
          ? ' Kernels of 8-bit and 16-bit numbers without a line of their own are compared with copying alone.' : '') +
        (dots.some((d) => d.from) ? ' A hollow dot is the default schedule, by the ratio of both times measured alone.' : '') +
        (left ? ' ' + counted(left, 'kernel') + ' without arithmetic ' + (left === 1 ? 'is' : 'are') + ' left out.' : '')}), roofKeys());
}

function progressOf(id, name, steps, trials, untuned, best, whole) {
  if (!steps.length) return null;
  const first = steps[0].best_us, last = steps[steps.length - 1].best_us;
  const confirmed = best !== null && best !== undefined;
  const levels = confirmed ? [{us: best, text: 'best record'}] : [];
  if (untuned && untuned !== best) levels.push({us: untuned, text: 'default schedule'});
  return progressFigure({id, steps, trials, levels,
    label: name + ': best time over ' + counted(trials, 'trial') + ', from ' + timeText(first) + ' to ' + timeText(last),
    caption: 'Steps: the best time so far, which is also the luckiest. The first point ' + (whole ? 'has a default schedule for every task.' : 'is the default schedule.') +
        (confirmed ? ' Dashed: the best record and the default schedule as the database ranks them; times that the end of the search measured in turns come first.' : '')});
}

// `gain`: default time / best time, as the database ranks them. The steps alone would promise too much.
function progressTitle(gain, trials) {
  return counted(trials, 'trial') + (gain > 1.005 ? ' found kernels that are together ' + gain.toFixed(2) + ' times as fast'
      : ' found no kernel that is faster for sure');
}

function progressSection(report) {
  const tuned = report.kernels.filter((k) => k.history && k.history.progress.length);
  if (!tuned.length) return null;
  const trials = tuned.reduce((sum, k) => sum + k.history.trials, 0);
  const sumOf = (f) => tuned.every((k) => f(k) !== null) ? tuned.reduce((sum, k) => sum + k.calls * f(k), 0) : null;
  const untuned = sumOf((k) => k.history.default_us), best = sumOf((k) => k.history.best_us);
  const whole = progressOf('progress-chart', 'All kernels together', report.progress, trials, untuned, best, true);
  const gained = [...tuned].sort((a, b) => weightOf(b) - weightOf(a));
  const place = el('div', {});
  const choose = el('select', {id: 'progress-task', onchange: () => show(gained[choose.selectedIndex])},
      gained.map((k) => el('option', {}, shortId(k.task) + ' ' + shortName(k.label))));
  const show = (k) => {
    const old = drawn.findIndex((entry) => entry.canvas.id === 'task-chart');
    if (old >= 0) drawn.splice(old, 1)[0].chart.destroy();
    place.replaceChildren(progressOf('task-chart', shortName(k.label), k.history.progress, k.history.trials, k.history.default_us, k.history.best_us));
    if (place.isConnected) draw(drawn[drawn.length - 1]);
  };
  show(gained[0]);
  return section('progress', untuned && best ? progressTitle(untuned / best, trials) : counted(trials, 'trial') + ' of ' + counted(tuned.length, 'task'),
      el('div', {class: 'pair'}, whole ? el('div', {}, el('p', {class: 'muted'}, report.kind === 'database' ? 'All tasks, one call each'
          : 'All kernels, as often as the network calls them', tuned.length < report.kernels.length ? ' (' + tuned.length + ' of ' + report.kernels.length + ' have records)' : ''), whole) : null,
      el('div', {}, el('p', {class: 'choose'}, el('label', {for: 'progress-task'}, 'One task '), choose), place)));
}
const weightOf = (k) => (k.history.progress.length > 1 ? 1e9 : 0) + (k.share || 0);

function failureSection(report) {
  if (!report.failures.length) return null;
  const all = report.kernels.reduce((sum, k) => sum + (k.history ? k.history.records : 0), 0);
  const failed = report.failures.reduce((sum, f) => sum + f.count, 0);
  const table = plainTable('Other outcomes than ok', ['outcome', 'candidates', 'first text', 'task'],
      report.failures.map((f) => [f.outcome, [String(f.count), f.count], f.first_error, shortId(f.task)]));
  return section('failures', failed + ' of ' + counted(all, 'candidate') + ' gave no time: ' + report.failures.slice(0, 3).map((f) => f.count + ' ' + f.outcome).join(', '),
      countsFigure({id: 'failures-chart', items: report.failures.map((f) => ({name: f.outcome, count: f.count})), table,
        label: 'Candidates by outcome: ' + report.failures.map((f) => f.count + ' ' + f.outcome).join(', '),
        caption: 'Rejected candidates exceed the registers; those that were cut off were much slower than the best one. Both are normal.'}));
}

function intervalGraphic(low, middle, high, verdict) {
  if (!low || !high) return dash;
  const far = Math.max(1.25, high, 1 / low), at = (v) => 50 + 50 * Math.log(v) / Math.log(far * 1.02);
  return el('span', {class: 'interval', 'aria-hidden': 'true'}, el('i', {style: {left: '50%'}}),
      el('b', {class: verdict, style: {left: at(low) + '%', width: at(high) - at(low) + '%'}}), el('em', {style: {left: at(middle) + '%'}}));
}

function choiceSection(report) {
  if (!report.choices.length) return null;
  const choice = report.choices[report.choices.length - 1];
  const sure = choice.speeds.filter((s) => s.speedup_low > 1).map((s) => s.speedup.toFixed(2) + ' times as fast on ' +
      (s.threads ? counted(s.threads, 'thread') : 'the GPU'));
  const title = sure.length ? 'Compared with the default schedules, the network is ' + sure.join(' and ')
      : choice.tuned_tasks ? choice.tuned_tasks + ' of ' + counted(choice.tasks, 'task') + ' run tuned schedules' : 'The network keeps its default schedules: no other was faster for sure';
  return section('choice', report.kind === 'database' ? 'Final choices for ' + counted(report.choices.length, 'network') : title, report.choices.map((c) => {
    const head = (c.model || 'network') + ' (' + shortId(c.network) + '), chosen ' + dateText(c.created_at) + ': ' + c.tuned_tasks + ' of ' +
        counted(c.tasks, 'task') + ' run tuned schedules' + (c.current ? '' : '; by another version, so compile ignores it');
    if (!c.speeds.length) return el('p', {}, head + '. No comparison with the untuned network is stored, since it keeps its default schedules.');
    return el('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'final choice'}, el('table', {}, el('caption', {}, head),
        el('thead', {}, el('tr', {}, ['threads', 'untuned', 'tuned', 'times as fast', '95 % interval', ''].map((t) => el('th', {scope: 'col'}, t)))),
        el('tbody', {}, c.speeds.map((s) => el('tr', {}, el('td', {}, s.threads ? String(s.threads) : 'GPU'), el('td', {class: 'n'}, timeText(s.untuned_ms * 1e3)),
            el('td', {class: 'n'}, timeText(s.tuned_ms * 1e3)), el('td', {class: 'n', dataset: {field: 'speedup', value: s.speedup}}, timesText(s.speedup)),
            el('td', {}, timesText(s.speedup_low) + ' to ' + timesText(s.speedup_high)),
            el('td', {}, intervalGraphic(s.speedup_low, s.speedup, s.speedup_high, s.speedup_low > 1 ? 'faster' : s.speedup_high < 1 ? 'slower' : '')))))));
  }));
}

function showReport(report) {
  document.title = report.name + ' – autotune report';
  const table = kernelTable(report);
  main.append(el('header', {}, el('h1', {}, report.name), el('p', {class: 'muted'}, report.target + ' · ' +
      (report.threads ? counted(report.threads, 'thread') + ' · ' : '') + dateText(report.created_at)), tilesOf(report)),
  ...[notesOf(report), timeSection(report, table.reveal), rooflineSection(report), progressSection(report), el('div', {class: 'pair'}, failureSection(report), choiceSection(report)),
    section('table', 'Every ' + (report.kind === 'database' ? 'task' : 'kernel') + ', and what limits it', table.node)].filter(Boolean));
  document.getElementById('origin').append(originOf(report));
  drawAll();
}

data.kind === 'comparison' ? showComparison(data) : showReport(data);
