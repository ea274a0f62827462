// Why a program of PostgreSQL gave up, of all that it said: what it did thereafter comes last and tells nobody anything.

const reason = /\b(?:FATAL|PANIC|initdb: error): +/;
/** What is told to whoever connects to a server that starts. */
const meanwhile = /FATAL: {2}the database system is /;

/** Its reason in one line, with the hint to it; where it names none, the last that it said. */
export function whySaid(text: string): string {
  const lines = text
    .trim()
    .split('\n')
    .filter((line) => !meanwhile.test(line));
  const at = lines.findIndex((line) => reason.test(line));
  if (at < 0) return lines.slice(-3).join(' ') || 'it says nothing';
  const hint = /\bHINT: +(.*)/.exec(lines[at + 1] ?? '')?.[1];
  const said = (lines[at] ?? '').replace(/^.*?\b(?=FATAL: |PANIC: |initdb: error: )/, '').replace(/ {2,}/g, ' ');
  return hint === undefined ? said : `${said} (${hint})`;
}
