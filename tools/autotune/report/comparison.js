// The page of a comparison.

const verdictWords = {faster: 'faster', slower: 'slower', equal: 'equal', undecided: 'not decided', unknown: 'no interval'};

function speedupText(speedup) {
  return timesText(speedup.median) + (speedup.low ? ' (' + timesText(speedup.low) + ' to ' + timesText(speedup.high) + ')' : '');
}

function changeTable(comparison) {
  const byTask = (report) => new Map(report.kernels.map((k) => [k.task, k]));
  const before = byTask(comparison.before), after = byTask(comparison.after);
  const time = (key, title, value) => ({key, title, value, cell: (c) => timeText(value(c)), number: true});
  const columns = [
    {key: 'task', title: 'task', value: (c) => c.task, cell: (c) => shortId(c.task)},
    {key: 'label', title: 'kernel', class: 'name', value: (c) => c.label, cell: (c) => el('div', {}, nameCell(after.get(c.task)), c.other_schedule ? null : el('div', {class: 'why'}, 'Both have the same schedule.'))},
    time('before', 'before', (c) => c.before && c.before.median_us), time('after', 'after', (c) => c.after && c.after.median_us),
    {key: 'speedup', title: 'times as fast', value: (c) => c.speedup.median, number: true,
      cell: (c) => el('span', {}, timesText(c.speedup.median), el('span', {class: 'bounds'}, speedupText(c.speedup).slice(timesText(c.speedup.median).length)))},
    {key: 'interval', title: '95 % interval', value: (c) => c.speedup.low, extra: true,
      cell: (c) => intervalGraphic(c.speedup.low, c.speedup.median, c.speedup.high, c.speedup.verdict)},
    {key: 'verdict', title: 'verdict', class: 'word', value: (c) => c.speedup.verdict,
      cell: (c) => el('span', {class: {faster: 'good', slower: 'bad'}[c.speedup.verdict] || ''}, verdictWords[c.speedup.verdict])},
    {key: 'schedule', title: 'schedule', value: (c) => String(c.other_schedule), cell: (c) => c.other_schedule ? 'another' : 'the same', more: true}];
  const side = (title, kernel) => el('div', {}, el('strong', {}, title), kernelFacts(kernel), reasonsOf(kernel), scheduleOf(kernel));
  return sortableTable({id: 'changes', caption: 'Open a row for both schedules. A title sorts.', columns, rows: comparison.changes, sort: 'before',
    rowId: (c) => 'task-' + c.task, textOf: (c) => c.task + ' ' + c.label + ' ' + verdictWords[c.speedup.verdict],
    detail: (c) => el('div', {class: 'pair'}, side('Before', before.get(c.task)), side('After', after.get(c.task)))});
}

function barsSection(comparison, reveal) {
  const {before, after} = comparison;
  if (!before.kernels_us || !after.kernels_us) return null;
  const whole = Math.max(before.kernels_us, after.kernels_us);
  const choose = (kernel) => reveal(comparison.changes.find((c) => c.task === kernel.task));
  return section('time', timeText(before.kernels_us) + ' of kernels before, ' + timeText(after.kernels_us) + ' after',
      el('p', {class: 'muted'}, 'before'), timeBar(before.kernels, whole, 'Kernels before', choose),
      el('p', {class: 'muted'}, 'after'), timeBar(after.kernels, whole, 'Kernels after', choose),
      el('p', {class: 'hint'}, 'Both bars have one scale. Colour: speed relative to what the machine allows.'), roofKeys());
}

function arrowsSection(comparison) {
  const old = new Map(comparison.before.kernels.map((k) => [k.task, k]));
  const shown = comparison.after.kernels.filter((k) => isDot(k) && old.has(k.task) && isDot(old.get(k.task)));
  const ceilings = comparison.after.ceilings;
  if (!ceilings || !shown.length) return null;
  const dots = shown.map((k) => dotOf(k, {x: old.get(k.task).flops / old.get(k.task).bytes, y: old.get(k.task).gflops}));
  return section('roofline', rooflineTitle(shown) + ' after the change', rooflineFigure({id: 'roofline-chart', ceilings, dots,
    label: 'Roofline with ' + counted(shown.length, 'kernel') + ' before and after',
    caption: 'A hollow dot is a kernel before, the full one after; its area is the share of the time.'}), roofKeys());
}

function onlySection(id, title, report, tasks) {
  if (!tasks.length) return null;
  const kernels = new Map(report.kernels.map((k) => [k.task, k]));
  return section(id, title, plainTable(title, ['task', 'kernel', 'time', 'share'], tasks.map((task) => {
    const k = kernels.get(task);
    return [shortId(task), k.label, [timeText(k.time && k.time.median_us), k.time && k.time.median_us], [percentText(k.share), k.share]];
  })));
}

function comparisonTitle(comparison) {
  const {speedup} = comparison;
  if (!speedup.median) return 'The times cannot be compared';
  if (speedup.verdict === 'undecided') return 'No sure difference: ' + speedupText(speedup) + ' times as fast';
  if (speedup.verdict === 'equal') return 'Equally fast: ' + speedupText(speedup);
  return (speedup.verdict === 'faster' ? 'Faster: ' : speedup.verdict === 'slower' ? 'Slower: ' : '') + speedupText(speedup) + ' times as fast';
}

function showComparison(comparison) {
  const {before, after} = comparison;
  const names = before.name === after.name ? before.name : before.name + ' and ' + after.name;
  document.title = names + ' – autotune comparison';
  const table = changeTable(comparison);
  const count = (verdict) => comparison.changes.filter((c) => c.speedup.verdict === verdict).length;
  const shown = comparison.changes.filter((c) => c.speedup.median).slice(0, 25);
  const faster = count('faster'), slower = count('slower');
  const same = comparison.changes.filter((c) => ['faster', 'slower'].includes(c.speedup.verdict) && !c.other_schedule).length;
  const title = counted(faster, 'kernel') + ' faster for sure, ' + slower + ' slower, ' + (comparison.changes.length - faster - slower) + ' without a sure difference' +
      (same ? '; ' + same + ' of the sure ones by an unchanged schedule' : '');
  const method = comparison.in_turns ? 'Both were loaded several times and measured in turns. Times as fast is the median of the ratios of all loads, so it may differ from the ratio of the two times. ' +
      'A difference is sure if every load shows it: of thirty equal kernels, one may seem to differ by chance.'
    : before.kind === 'network' ? 'Measured at different times: the machine may have been in different states.' : 'By the best record of each task, one call alone.';
  main.append(el('header', {}, el('h1', {}, names), el('p', {class: 'muted'}, comparisonTitle(comparison)),
      el('dl', {class: 'tiles'},
          before.time ? tile('before', number('before_us', before.time.median_us, timeText(before.time.median_us)), before.source) : null,
          after.time ? tile('after', number('after_us', after.time.median_us, timeText(after.time.median_us)), after.source) : null,
          comparison.speedup.median ? tile('times as fast', number('speedup', comparison.speedup.median, timesText(comparison.speedup.median)),
              comparison.speedup.low ? '95 %: ' + timesText(comparison.speedup.low) + ' to ' + timesText(comparison.speedup.high) : 'no interval') : null,
          tile('kernels faster', number('faster', faster, String(faster)), 'for sure'), tile('kernels slower', number('slower', slower, String(slower)), 'for sure'))),
  ...[notesOf(comparison), el('p', {class: 'hint method'}, method),
  shown.length ? section('speedups', title, speedupsFigure({id: 'speedups-chart', changes: shown, label: title,
    caption: 'A bar is the 95 % interval of time before / time after, its mark the median. Right of 1 is faster.' +
        (comparison.changes.length > shown.length ? ' The ' + shown.length + ' kernels with the most time.' : '')})) : null,
  barsSection(comparison, table.reveal), arrowsSection(comparison), section('table', 'Every kernel that both have', table.node),
  onlySection('only-before', 'Only before: ' + counted(comparison.only_before.length, 'kernel'), before, comparison.only_before),
  onlySection('only-after', 'Only after: ' + counted(comparison.only_after.length, 'kernel'), after, comparison.only_after)].filter(Boolean));
  document.getElementById('origin').append(el('div', {}, facts([['command', el('code', {}, comparison.command)]]),
      el('div', {class: 'pair'}, originOf(before, 'Before'), originOf(after, 'After'))));
  drawAll();
}
