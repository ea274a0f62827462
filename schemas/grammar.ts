// The words in which the fields of a document are described: each field once, with its type, its limits, its default, what
// it is for and an example. From a description come the reader of compile with its messages, the TypeScript type, the
// JSON Schema for editors, `svc explain` and the page docs/reference/agent-document.md. Descriptions are data.

import type { DiagnosticCode } from '../internal/domain/codes.ts';
import type { Json, JsonObject, JsonScalar } from '../internal/domain/json.ts';

declare const valueTable: unique symbol;
/** Carries the type of the values that a description stands for; never there at run time. */
interface Typed<T> {
  readonly [valueTable]?: T;
}

/** How a root field merges with the same field of an import; docs/reference/agent-document.md#merging says what each does. */
export type Merge = 'override' | 'deep' | 'environment' | 'append' | 'map' | 'leaves' | 'mounts' | 'triggers' | 'none';

/** What every description says. */
interface About {
  /** One or two sentences, for people. */
  readonly description: string;
  readonly example?: Json;
  /** How a value of the type is named in a message: `path must be …`. */
  readonly what?: string;
  /** What `pattern` or a closed list wants, where a message says it in other words than `what`. */
  readonly form?: string;
  /** What to write instead of a value that does not fit; `lacking`: where it is required and missing. */
  readonly hint?: string;
  readonly lacking?: string;
  /** The code of a value that does not fit, where it has one of its own. */
  readonly code?: DiagnosticCode;
  /** True: it must be there. `merged`: it must be there once imports are merged. */
  readonly required?: boolean | 'merged';
  /** What stands in the stored spec where the field is absent. */
  readonly default?: Json;
  /** What holds where the field is absent, said in words. */
  readonly otherwise?: string;
  /** Of a root field. */
  readonly merge?: Merge;
  /** The spelling that this one was before. */
  readonly legacyOf?: string;
  /** False: it steers compiling, and is not in the stored spec. */
  readonly stored?: false;
  /** A rule that spans fields, for people; compile checks it. */
  readonly rule?: string;
  /** What is said where the field stands in a group beside its own. */
  readonly misplaced?: Misplaced;
}

/**
 * What is said of a key that belongs to another group of the same variants. In the message stand `{key}`, `{path}`, `{own}` for
 * the variant that the map says it is, and `{owners}` for those that have the key.
 */
export interface Misplaced {
  readonly code: DiagnosticCode;
  readonly message: string;
}

/** A text; not empty but where `least` is 0. Counted in Unicode code points. */
export interface Text extends About, Typed<string> {
  readonly kind: 'text';
  readonly least: 0 | 1;
  readonly most?: number;
  /** Space around it is not part of it. */
  readonly trim: boolean;
  /** False: space alone is as good as nothing, though it is kept around other text. */
  readonly blank?: false;
  /** What the text must match. */
  readonly pattern?: string;
  /** `most` counts the characters of the text as JSON escapes it. */
  readonly counted?: 'escaped';
  /** What `{{ path }}` tokens in it are read from. */
  readonly tokens?: 'payload' | 'input';
  /** Values that an editor offers; others are accepted too. */
  readonly suggestions?: readonly string[];
  /** It may also be written as `file:` or `append:`. */
  readonly fileBacked?: true;
}
/** A resource name: 1 to 128 of `A-Z a-z 0-9 _ . -`. */
export interface Name extends About, Typed<string> {
  readonly kind: 'name';
}
export interface Choice<T extends JsonScalar = JsonScalar> extends About, Typed<T> {
  readonly kind: 'choice';
  readonly values: readonly T[];
  /** Spellings that are accepted and normalized. */
  readonly legacy?: readonly string[];
}
export interface Whole extends About, Typed<number> {
  readonly kind: 'whole';
  readonly least: number;
  /** Absent: as far as a double counts. */
  readonly most?: number;
}
export interface Flag extends About, Typed<boolean> {
  readonly kind: 'flag';
}
/** A text, number, true, false or null. */
export interface Scalar extends About, Typed<JsonScalar> {
  readonly kind: 'scalar';
  /** True: not null. */
  readonly notNull?: true;
  /** A number that a double cannot hold is its digits, as events have it. */
  readonly exact?: true;
}
/** Any JSON object. */
export interface Free extends About, Typed<JsonObject> {
  readonly kind: 'free';
  /** True: null stands for none. */
  readonly orNull?: true;
}
export interface AnyList extends About {
  readonly kind: 'list';
  readonly item: Desc;
  readonly least: number;
  readonly most?: number;
}
export interface List<D extends Desc> extends AnyList, Typed<readonly Value<D>[]> {
  readonly item: D;
}
/** A map whose keys the author chooses. */
export interface AnyKeyed extends About {
  readonly kind: 'record';
  /** How a key is written in a path: `<alias>`. */
  readonly key: string;
  /** What a key must match; any that is not empty where absent. */
  readonly pattern?: string;
  /** The code of a key that does not, and what is said of it, with `{path}` and `{key}`. */
  readonly keyCode?: DiagnosticCode;
  readonly keyMessage?: string;
  /** What is often forgotten in front of a key. */
  readonly keyPrefix?: string;
  readonly value: Desc;
}
export interface Keyed<D extends Desc> extends AnyKeyed, Typed<{ readonly [key: string]: Value<D> }> {
  readonly value: D;
}
export type Fields = { readonly [name: string]: Desc };
/** A map of known keys; strict, but for the root of an agent document. */
export interface AnyGroup extends About {
  readonly kind: 'group';
  readonly fields: Fields;
  readonly open: boolean;
  /** Exactly one of the keys stands, which is called so; anything else has the code. */
  readonly alone?: { readonly noun: string; readonly code: DiagnosticCode };
  /** What is said of keys that other groups of its variants have. */
  readonly others?: Misplaced;
}
export interface Group<F extends Fields> extends AnyGroup, Typed<GroupValue<F>> {
  readonly fields: F;
}
type Variant = AnyGroup | AnyVariants;
/** One of several groups, told apart by the value of one key. */
export interface AnyVariants extends About {
  readonly kind: 'variants';
  readonly by: string;
  readonly variants: { readonly [value: string]: Variant };
  /** Spellings of the key's value that are accepted and normalized, and the variant that each is read as. */
  readonly legacy?: { readonly [spelling: string]: string };
  /** The variant of a map without the key, where that is legal. */
  readonly absent?: string;
  /** What to write where the key is missing. */
  readonly choose?: string;
}
export interface Variants<V extends { readonly [value: string]: Variant }>
  extends AnyVariants,
    Typed<VariantsValue<V>> {
  readonly variants: V;
}
/** A scalar or something with parts, told apart by its type. */
export interface AnyEither extends About {
  readonly kind: 'either';
  readonly single: Desc;
  readonly parts: Desc;
}
export interface Either<S extends Desc, P extends Desc> extends AnyEither, Typed<Value<S> | Value<P>> {
  readonly single: S;
  readonly parts: P;
}
// biome-ignore format: one a line
export type Desc =
  | Text | Name | Choice | Whole | Flag | Scalar | Free | AnyList | AnyKeyed | AnyGroup | AnyVariants | AnyEither;

/** The type of the values that a description stands for, as they are stored. */
export type Value<D> = D extends Typed<infer T> ? T : never;
type IsThere<D> = D extends { readonly required: true } ? true : D extends { readonly default: Json } ? true : false;
type Stored<F> = { [K in keyof F as F[K] extends { readonly stored: false } ? never : K]: F[K] };
type Flat<T> = { [K in keyof T]: T[K] };
type GroupValue<F> = Flat<
  { readonly [K in keyof Stored<F> as IsThere<F[K & keyof F]> extends true ? K : never]: Value<Stored<F>[K]> } & {
    readonly [K in keyof Stored<F> as IsThere<F[K & keyof F]> extends true ? never : K]?: Value<Stored<F>[K]>;
  }
>;
type VariantsValue<V> = { [K in keyof V]: Value<V[K]> }[keyof V];

type Rest<D> = Partial<Omit<D, 'kind' | 'description' | typeof valueTable>>;

export const text = <const R extends Rest<Text>>(description: string, rest: R = {} as R) =>
  ({ kind: 'text', least: 1, trim: false, description, ...rest }) as Text & NoInfer<R>;
export const name = <const R extends Rest<Name>>(description: string, rest: R = {} as R) =>
  ({ kind: 'name', description, ...rest }) as Name & NoInfer<R>;
export const choice = <const T extends JsonScalar, const R extends Rest<Choice<T>>>(
  values: readonly T[],
  description: string,
  rest: R = {} as R,
) => ({ kind: 'choice', values, description, ...rest }) as Choice<T> & NoInfer<R>;
export const whole = <const R extends Rest<Whole>>(
  least: number,
  most: number | undefined,
  description: string,
  rest: R = {} as R,
) => ({ kind: 'whole', least, ...(most === undefined ? {} : { most }), description, ...rest }) as Whole & NoInfer<R>;
export const flag = <const R extends Rest<Flag>>(description: string, rest: R = {} as R) =>
  ({ kind: 'flag', description, ...rest }) as Flag & NoInfer<R>;
export const scalar = <const R extends Rest<Scalar>>(description: string, rest: R = {} as R) =>
  ({ kind: 'scalar', description, ...rest }) as Scalar & NoInfer<R>;
export const free = <const R extends Rest<Free>>(description: string, rest: R = {} as R) =>
  ({ kind: 'free', description, ...rest }) as Free & NoInfer<R>;
export const list = <const D extends Desc, const R extends Rest<List<D>>>(
  item: D,
  description: string,
  rest: R = {} as R,
) => ({ kind: 'list', item, least: 0, description, ...rest }) as unknown as List<D> & NoInfer<R>;
export const record = <const D extends Desc, const R extends Rest<Keyed<D>>>(
  key: string,
  value: D,
  description: string,
  rest: R = {} as R,
) => ({ kind: 'record', key, value, description, ...rest }) as unknown as Keyed<D> & NoInfer<R>;
export const group = <const F extends Fields, const R extends Rest<Group<F>>>(
  fields: F,
  description: string,
  rest: R = {} as R,
) => ({ kind: 'group', fields, open: false, description, ...rest }) as unknown as Group<F> & NoInfer<R>;
export const variants = <const V extends { readonly [value: string]: Variant }, const R extends Rest<Variants<V>>>(
  by: string,
  values: V,
  description: string,
  rest: R = {} as R,
) => ({ kind: 'variants', by, variants: values, description, ...rest }) as unknown as Variants<V> & NoInfer<R>;
export const either = <const S extends Desc, const P extends Desc, const R extends Rest<Either<S, P>>>(
  single: S,
  parts: P,
  description: string,
  rest: R = {} as R,
) => ({ kind: 'either', single, parts, description, ...rest }) as unknown as Either<S, P> & NoInfer<R>;

/** A description for another place: another sentence, another default, required there. */
export const as = <const D extends Desc, const R extends Rest<About>>(
  desc: D,
  rest: R & { readonly description?: string },
) => ({ ...desc, ...rest }) as D & NoInfer<R>;

/** The fields of a table but for some, which somebody else reads. */
export const without = <F extends Fields, K extends keyof F>(fields: F, ...left: readonly K[]): Omit<F, K> =>
  Object.fromEntries(Object.entries(fields).filter(([key]) => !left.includes(key as K))) as unknown as Omit<F, K>;

/** How a message names the type of a value: `path must be …`. */
export function whatOf(desc: Desc): string | undefined {
  if (desc.what !== undefined || desc.kind !== 'whole') return desc.what;
  if (desc.most === undefined) return `a whole number of at least ${grouped(desc.least)}`;
  return `a whole number from ${grouped(desc.least)} to ${grouped(desc.most)}`;
}

/** A whole number with commas between its thousands; a locale's formatter would cost every start of the command line 15 ms. */
export const grouped = (value: number): string => String(value).replace(/\B(?=(?:\d{3})+$)/g, ',');

/** The keys of a group, in the order of the table. */
export function keysOf(desc: AnyGroup): readonly string[] {
  const kept = keys.get(desc);
  if (kept !== undefined) return kept;
  const made = Object.keys(desc.fields);
  keys.set(desc, made);
  return made;
}
const keys = new WeakMap<AnyGroup, readonly string[]>();

/** Two types that are the same; for checks that a description and a type of the domain agree. */
export type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;
