// A look at a git server, for people.

import type { RepositoryProbe } from '../../../schemas/api/repositories.ts';
import { clean, details, type Paint } from './text.ts';

/** What cannot be read is an answer, and not a good one, also where its server answers; undefined where it can be. */
export function whyUnread(report: RepositoryProbe): string | undefined {
  if (report.reachable === false)
    return `it cannot be read (${clean(report.condition, true)}): ${clean(report.detail, true)}`;
  return report.via === null ? clean(report.advice[0] ?? 'it cannot be read', true) : undefined;
}

export function probeText(report: RepositoryProbe, paint: Paint): string {
  const plain = Object.entries(report).filter(([name, value]) => name !== 'advice' && value !== null);
  const pairs = plain.map(([name, value]): readonly [string, string] => [
    name,
    clean(typeof value === 'object' ? JSON.stringify(value) : String(value), true),
  ]);
  const advice = report.reachable ? report.advice.map((line) => `- ${clean(line)}`) : [];
  return [details(pairs, paint), ...(advice.length > 0 ? ['', ...advice] : [])].join('\n');
}
