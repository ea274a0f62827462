// Times that people give to options.

import { isoMillis } from '../../../schemas/secret.ts';

/**
 * An ISO 8601 day or time as the API takes one; undefined for anything else. A day begins in UTC, a time without a zone is
 * one of this machine. The runtime's own reading would take `90` for the year 1990, and February 30 for March 2.
 */
export function isoTime(text: string): string | undefined {
  const [, day = '', time, zone] =
    /^(\d{4}-\d{2}-\d{2})(?:[T ]([\d:.,]+)(Z|[+-]\d{2}:?\d{2})?)?$/.exec(text.trim()) ?? [];
  const whole = isoMillis(`${day}T${time ?? '00:00'}${zone ?? 'Z'}`);
  if (whole === undefined) return undefined;
  const isLocal = time !== undefined && zone === undefined;
  return new Date(isLocal ? `${day}T${time.replace(',', '.')}` : whole).toISOString();
}
