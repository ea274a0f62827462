// Long texts of resources on their way from the worker: as bytes, which go over without a copy, and stay bytes. A tree of
// thousands of long prompts would be in the daemon's heap three times over while it is applied: as what was taken, as
// rows and as what becomes of those. A text is made of its bytes each time that somebody reads it, and forgotten.

import type { CompiledResource } from './run.ts';

/** UTF-16 units; a shorter text goes as it is. */
const longFrom = 1_024;

type Step = string | number;
type Value = string | number | boolean | null | undefined | readonly Value[] | { readonly [key: string]: Value };

/** A text that was taken out: where it belongs, and where its bytes are. */
interface Taken {
  readonly resource: number;
  readonly path: readonly Step[];
  readonly at: number;
  readonly length: number;
}

/** Resources without their long texts, and those. */
export interface Packed {
  readonly resources: readonly CompiledResource[];
  readonly taken: readonly Taken[];
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Takes the long texts out; what is given is not changed. */
export function packed(resources: readonly CompiledResource[]): Packed {
  const found: { readonly resource: number; readonly path: readonly Step[]; readonly bytes: Buffer }[] = [];
  const short = resources.map((one, resource) => {
    const spec = without(one.spec, null, (path, text) => found.push({ resource, path, bytes: Buffer.from(text) }));
    return spec === (one.spec as unknown) ? one : ({ ...one, spec } as unknown as CompiledResource);
  });
  const bytes = new Uint8Array(found.reduce((sum, one) => sum + one.bytes.length, 0));
  let at = 0;
  const taken = found.map(({ resource, path, bytes: text }) => {
    bytes.set(text, at);
    at += text.length;
    return { resource, path, at: at - text.length, length: text.length };
  });
  return { resources: short, taken, bytes };
}

/** Where a value is: made on the way down, and a list only of what is taken. */
interface Chain {
  readonly parent: Chain | null;
  readonly step: Step;
}

function pathOf(chain: Chain): Step[] {
  const steps: Step[] = [];
  for (let at: Chain | null = chain; at !== null; at = at.parent) steps.push(at.step);
  return steps.reverse();
}

/** The value with an empty text for each long one in it; itself where there is none. */
function without(
  value: object,
  chain: Chain | null,
  take: (path: readonly Step[], text: string) => void,
): { readonly [key: Step]: Value } {
  const whole = value as { readonly [key: Step]: Value };
  let copy: { [key: Step]: Value } | undefined;
  const isList = Array.isArray(value);
  for (const key of Object.keys(value)) {
    const one = whole[key];
    // Half a character has no bytes.
    const isLong = typeof one === 'string' && one.length >= longFrom && one.isWellFormed();
    if (!isLong && (typeof one !== 'object' || one === null)) continue;
    const here = { parent: chain, step: isList ? Number(key) : key };
    if (isLong) take(pathOf(here), one);
    const made = isLong ? '' : without(one as object, here, take);
    if (made === one) continue;
    copy ??= (isList ? [...(value as readonly Value[])] : { ...whole }) as { [key: Step]: Value };
    copy[key] = made as Value;
  }
  return copy ?? whole;
}

/** The resources, whose long texts are read from the bytes when they are asked for. Changes what it is given. */
export function unpacked({ resources, taken, bytes }: Packed): readonly CompiledResource[] {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  for (const { resource, path, at, length } of taken) {
    const key = path.at(-1) as Step;
    let holder = resources[resource]?.spec as unknown as { [key: Step]: unknown };
    for (const step of path.slice(0, -1)) holder = holder[step] as { [key: Step]: unknown };
    Object.defineProperty(holder, key, {
      get: () => all.toString('utf8', at, at + length),
      enumerable: true,
      configurable: true,
    });
  }
  return resources;
}
