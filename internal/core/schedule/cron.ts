// The grammar of a cron expression: five fields as cron(5) has them, and nothing else. Expressions come out in numbers
// alone, so that what runs them has no room for reading of its own.

export interface CronFields {
  /** The five fields in numbers, as the scheduler takes them. */
  readonly pattern: string;
  /** True where the day of month or the day of week begins with `*`: then both must fit, else either (cron(5)). */
  readonly bothDays: boolean;
  /** True without a wildcard in minute and hour: a time that a clock change neither leaves out nor repeats. */
  readonly isFixed: boolean;
}

interface Field {
  readonly name: string;
  readonly least: number;
  readonly most: number;
  readonly words: readonly string[];
}
const monthNames = 'jan feb mar apr may jun jul aug sep oct nov dec'.split(' ');
const dayNames = 'sun mon tue wed thu fri sat'.split(' ');
const sundayAs7 = 7;
const cronFields: readonly Field[] = [
  { name: 'minute', least: 0, most: 59, words: [] },
  { name: 'hour', least: 0, most: 23, words: [] },
  { name: 'day of month', least: 1, most: 31, words: [] },
  { name: 'month', least: 1, most: 12, words: monthNames },
  { name: 'day of week', least: 0, most: sundayAs7, words: dayNames },
];

type Parsed = CronFields | { readonly problem: string };

/** Expressions that have been read: a fleet has the same few many times. Bounded in number and, by the length of each, in bytes. */
const known = new Map<string, Parsed>();
const knownMax = 1_000;
const knownLength = 100;

/** The expression in numbers, or `{ problem }`: what is wrong and what is accepted (docs/reference/schedules.md#cron). */
export function parseCron(expression: string): Parsed {
  const found = known.get(expression);
  if (found !== undefined) return found;
  const made = parse(expression);
  if (known.size >= knownMax) known.clear();
  if (expression.length <= knownLength) known.set(expression, made);
  return made;
}

function parse(expression: string): Parsed {
  const text = expression.trim();
  if (text === '') return { problem: 'a cron expression must not be empty' };
  if (text.startsWith('@'))
    return { problem: `${quote(text)} is a nickname; write five fields, such as "0 9 * * 1-5"` };
  if (/^(CRON_)?TZ\s*=/i.test(text))
    return { problem: 'TZ= is not accepted in a cron expression; use the field timezone' };
  const parts = text.split(/[ \t]+/);
  if (parts.length !== cronFields.length) {
    return {
      problem: `a cron expression has five fields (minute, hour, day of month, month, day of week), not ${parts.length}`,
    };
  }
  const numbers: string[] = [];
  for (const [index, field] of cronFields.entries()) {
    const part = parts[index] ?? '';
    const parsed = parseField(part, field);
    if (parsed === null) return { problem: `${quote(part)} is no ${field.name}; ${accepted(field)}` };
    numbers.push(parsed);
  }
  const bothDays = [parts[2], parts[4]].some((part) => part?.startsWith('*') === true);
  const isFixed = ![parts[0], parts[1]].some((part) => part?.includes('*') === true);
  return { pattern: numbers.join(' '), bothDays, isFixed };
}

const quote = (text: string): string => JSON.stringify(text.slice(0, 40).toWellFormed());

function accepted(field: Field): string {
  const words = field.words.length === 0 ? '' : `, names such as ${field.words[1]}`;
  return `accepted are *, ${field.least} to ${field.most}${words}, ranges a-b, lists a,b and steps */n or a-b/n`;
}

function parseField(part: string, field: Field): string | null {
  const elements: string[] = [];
  for (const element of part.split(',')) {
    const parsed = parseElement(element, field);
    if (parsed === null) return null;
    elements.push(parsed);
  }
  return elements.join(',');
}

const elementPattern = /^(?:(\*)|([0-9]{1,2}|[A-Za-z]{3})(?:-([0-9]{1,2}|[A-Za-z]{3}))?)(?:\/([0-9]{1,4}))?$/;

/** One of `*`, a star with a step, `a`, `a-b`, `a-b/n`. */
function parseElement(element: string, field: Field): string | null {
  const found = elementPattern.exec(element);
  if (found === null) return null;
  const [, star, low, high, step] = found;
  const by = step === undefined ? '' : stepOf(step, field);
  if (by === null) return null;
  if (star !== undefined) return `*${by}`;
  const from = valueOf(low ?? '', field);
  if (from === null) return null;
  if (high === undefined) return step === undefined ? String(from) : null;
  const to = valueOf(high, field, from);
  return to === null || to < from ? null : `${from}-${to}${by}`;
}

/** A step longer than the field reaches its first value alone, as the longest step does. */
function stepOf(text: string, field: Field): string | null {
  const step = Number(text);
  const longest = field.words === dayNames ? dayNames.length : field.most - field.least + 1;
  return step === 0 ? null : `/${Math.min(step, longest)}`;
}

/** A number or a name; Sunday is 0, and 7 too, so that a range from a later day may end on it. */
function valueOf(text: string, field: Field, from = 0): number | null {
  if (/^[0-9]/.test(text)) {
    const value = Number(text);
    return value >= field.least && value <= field.most ? value : null;
  }
  const index = field.words.indexOf(text.toLowerCase());
  if (index < 0) return null;
  return from > 0 && index === 0 && field.words === dayNames ? sundayAs7 : index + field.least;
}

const longestMonths = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** True for a sound expression whose days no month has, such as 30 February: it applies and never fires. */
export function hasNoDay(fields: CronFields): boolean {
  const [, , days = '*', months = '*', weekdays = '*'] = fields.pattern.split(' ');
  // Where both kinds of day are restricted either is enough, and every week has its days.
  if (days.startsWith('*') || !weekdays.startsWith('*')) return false;
  const earliest = Math.min(...days.split(',').map((element) => Number.parseInt(element, 10)));
  const lengths = longestMonths.filter((_, index) => months.split(',').some((element) => reaches(element, index + 1)));
  return lengths.every((length) => earliest > length);
}

/** True where an element of a field takes a value. */
function reaches(element: string, value: number): boolean {
  const [range = '', step = '1'] = element.split('/');
  const [low = '', high = low] = range.split('-');
  const from = range === '*' ? 1 : Number(low);
  const to = range === '*' ? value : Number(high);
  return value >= from && value <= to && (value - from) % Number(step) === 0;
}
