// Reads the report of a run (`node score.mjs REPORT`): per file, how many mutants were killed of those that can be, and each
// that lives. A mutant that changes nothing which can be seen stands in equivalent.json with the reason, and is subtracted;
// `nth` says which it is where a line has several alike. One listed there that no longer exists, or that a test kills, fails the run, and so does a figure under `killedMin`.
// A mutant that ran out of time counts as killed only where it went round the same place a hundred times as often as the
// code does (`Hit limit reached`), never by the clock.

import { existsSync, readFileSync } from 'node:fs';

const killedMin = 95;
const report = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const listed = JSON.parse(readFileSync(new URL('equivalent.json', import.meta.url), 'utf8'));
/** Of a run over some places only, nothing follows about the others. */
const isPartial = process.env.PLACES !== undefined && process.env.PLACES !== '';

const oneLine = (text) => text.replace(/\s+/g, ' ').trim();
function textOf(lines, { start, end }) {
  if (start.line === end.line) return lines[start.line - 1].slice(start.column - 1, end.column - 1);
  const inner = lines.slice(start.line, end.line - 1);
  return [lines[start.line - 1].slice(start.column - 1), ...inner, lines[end.line - 1].slice(0, end.column - 1)].join('\n');
}
const isKilled = ({ status, statusReason = '' }) =>
  status === 'Killed' || status === 'RuntimeError' || (status === 'Timeout' && statusReason.startsWith('Hit limit'));

const faults = [];
for (const file of Object.keys(listed)) if (!existsSync(file)) faults.push(`${file}: listed and not there`);
const all = { killed: 0, possible: 0 };
const show = (name, { killed, possible }) => console.log(`${name}: ${killed} of ${possible}, ${possible === 0 ? 100 : ((100 * killed) / possible).toFixed(1)} %`);
for (const [file, { source, mutants }] of Object.entries(report.files).sort()) {
  const lines = source.split('\n');
  const known = (listed[file] ?? []).map((one) => ({ ...one, found: 0 }));
  const count = { killed: 0, possible: 0 };
  const alive = [];
  for (const mutant of mutants) {
    if (mutant.status === 'Ignored' || mutant.status === 'CompileError') continue;
    const line = oneLine(lines[mutant.location.start.line - 1]);
    const from = oneLine(textOf(lines, mutant.location));
    const to = oneLine(mutant.replacement ?? '');
    const before = lines[mutant.location.start.line - 1].slice(0, mutant.location.start.column - 1);
    const nth = before.split(from).length;
    const equivalent = known.find((one) => one.line === line && one.from === from && one.to.includes(to) && (one.nth ?? nth) === nth);
    if (equivalent !== undefined) {
      equivalent.found += 1;
      if (isKilled(mutant)) faults.push(`${file}: listed as equivalent and killed: ${line} [${from} ⇒ ${to}]`);
      continue;
    }
    count.possible += 1;
    if (isKilled(mutant)) count.killed += 1;
    else alive.push({ at: mutant.location.start, id: mutant.id, status: mutant.status, line, from, to });
  }
  if (!isPartial) for (const { line, from, to, found } of known) if (found < to.length) faults.push(`${file}: listed as equivalent and not there: ${line} [${from} ⇒ ${to.join(', ')}]`);
  show(file, count);
  alive.sort((a, b) => a.at.line - b.at.line || a.at.column - b.at.column);
  for (const { at, id, status, line, from, to } of alive) console.log(`  ${at.line}:${at.column} #${id} ${status} ${line.slice(0, 160)} [${from.slice(0, 120)} ⇒ ${to.slice(0, 120)}]`);
  all.killed += count.killed;
  all.possible += count.possible;
}
show('all', all);
for (const fault of faults) console.error(fault);
if (faults.length > 0 || (!isPartial && (100 * all.killed) / Math.max(1, all.possible) < killedMin)) process.exitCode = 1;
