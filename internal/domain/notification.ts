// What people are told of, as closed lists.

import type { JsonObject } from './json.ts';

/** What receivers may ask for; a failed launch is told where its session came from, and here as `session-failed`. */
export const conditionsList = [
  'sync-failed',
  'sync-held',
  'sync-recovered',
  'session-failed',
  'session-blocked',
  'session-asks',
  'cap-reached',
  'connection-lost',
  'secret-expiring',
] as const;
export type Condition = (typeof conditionsList)[number];
export type NoticeCondition = Condition | 'launch-failed' | 'test';

export const severityOf = (condition: NoticeCondition): 'info' | 'warning' | 'error' => {
  if (condition === 'sync-recovered' || condition === 'test') return 'info';
  const warns: readonly NoticeCondition[] = ['sync-held', 'session-asks', 'secret-expiring', 'cap-reached'];
  return warns.includes(condition) ? 'warning' : 'error';
};

/** Something that people are to be told: `subject` has names and ids, by condition. */
export interface Notice {
  readonly id: string;
  readonly condition: NoticeCondition;
  readonly subject: JsonObject;
  readonly at: Date;
}

/** Ids of people at their providers. */
export interface Approvers {
  readonly chat?: readonly string[] | undefined;
  readonly codehost?: readonly string[] | undefined;
  readonly tracker?: readonly string[] | undefined;
}
