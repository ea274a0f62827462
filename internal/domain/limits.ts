// What an environment may ask for at most (docs/reference/sessions.md#presets).

import type { ResourceLimits } from './catalog.ts';

const keys = ['cpuCount', 'memoryMB'] as const;

export interface OverLimit {
  readonly key: (typeof keys)[number];
  readonly value: number;
  readonly most: number;
}

/** What is over a ceiling; a ceiling that is not there refuses nothing. */
export function overLimits(asked: ResourceLimits | undefined, limits: ResourceLimits | null | undefined): OverLimit[] {
  return keys.flatMap((key) => {
    const [value, most] = [asked?.[key], limits?.[key]];
    return value === undefined || most === undefined || value <= most ? [] : [{ key, value, most }];
  });
}

/** The lower of two ceilings, each by itself. */
export function lowerLimits(
  one: ResourceLimits | null | undefined,
  other: ResourceLimits | null | undefined,
): ResourceLimits {
  const lowest = keys.flatMap((key) => {
    const values = [one?.[key], other?.[key]].filter((value) => value !== undefined);
    return values.length === 0 ? [] : [[key, Math.min(...values)] as const];
  });
  return Object.fromEntries(lowest);
}
