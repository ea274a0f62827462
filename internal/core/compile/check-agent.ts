// Checks one merged agent document and gives its canonical spec (docs/reference/agent-document.md,
// docs/reference/compile.md#output). Reports every independent error at the key or value that is wrong; needs nothing but the
// document and the catalog, so that what it gives may be kept under the document's key. What needs other documents is in
// assemble.

import { agentFields, spendCaps } from '../../../schemas/agent.ts';
import { keysOf, without } from '../../../schemas/grammar.ts';
import {
  type AgentSpec,
  type EndpointAuth,
  type EnvironmentSpec,
  type Harness,
  type ReasoningEffort,
  resourceNamePattern,
} from '../../domain/spec.ts';
import { diagnosticCodes } from '../../domain/codes.ts';
import type { Range } from '../../domain/diagnostic.ts';
import type { LintTrigger } from '../lint/types.ts';
import { type MapEntry, type MapNode, scalarOf } from '../source/node.ts';
import { readFields, reading } from './read-field.ts';
import {
  type Check,
  compact,
  createCheck,
  type Extra,
  fault,
  field,
  type MapRef,
  optional,
  pathOf,
  type Reader,
  strict,
  string,
  wrong,
} from './read.ts';
import { checkBindings, checkHeld, foldBindings } from './check-bindings.ts';
import { envMap } from './check-env.ts';
import { checkEnvironment, type Generated } from './check-environment.ts';
import { checkIdentity, type GeneratedIdentity } from './check-identity.ts';
import { checkEffort, checkModel } from './check-model.ts';
import { checkMounts, workingDirectory } from './check-mounts.ts';
import { checkTools } from './check-tools.ts';
import { checkTriggers, type TriggerDraft } from './check-triggers.ts';
import { crossCheck, isReleased } from './cross-checks.ts';
import { exampleAt } from './examples.ts';
import { lintDocument } from './lint-document.ts';
import { type OriginDraft, originsOf } from './origins.ts';
import { type Part, partsOf } from './places.ts';
import { resourceName, wrongName } from './resource-name.ts';
import type { CompileInput, MergedDocument, Report } from './types.ts';
import { withoutEnd } from '../../domain/text.ts';

/** A name that the document uses for a resource, and where. */
export interface NameRef {
  readonly name: string;
  readonly range: Range;
  readonly path: string;
}
export interface EndpointDraft extends NameRef {
  readonly auth?: EndpointAuth;
  readonly authRange?: Range;
  readonly authPath?: string;
}

/** What one document gives to the tree. Parts that are wrong are absent and have been reported. */
export interface AgentDraft {
  readonly file: string;
  readonly document: number;
  readonly name?: NameRef;
  /** Absent where the document has an error. */
  readonly spec?: AgentSpec;
  /** The generated environment, or the name of one that another document generates. */
  readonly environment?: Generated<EnvironmentSpec>;
  readonly environmentRef?: NameRef;
  readonly identity?: GeneratedIdentity;
  readonly identityRef?: NameRef;
  /** Names of inline resources that have an error of their own: declared all the same, for who refers to them. */
  readonly brokenEnvironment?: string;
  readonly brokenIdentity?: string;
  /** What the linter needs of the triggers to judge them against other agents'. */
  readonly lint: readonly LintTrigger[];
  /** The document's first key, for findings that have no better place. */
  readonly home: Range;
  /** Endpoints in the order of the triggers that name them. */
  readonly endpoints: readonly EndpointDraft[];
  /** Places that an apply may have to point at; empty where the document has an error. */
  readonly parts: readonly Part[];
  /** Of every value of `spec`; absent where nobody asked. */
  readonly origins?: readonly OriginDraft[];
}

/** Checks a document. Only `input.catalog` and `input.origins` are read. Reports at most a few findings per node; never throws. */
export function checkAgent(
  doc: MergedDocument,
  input: Pick<CompileInput, 'catalog' | 'origins'>,
  report: Report,
): AgentDraft {
  const check = createCheck(report);
  const root = rootSpot(doc);
  const home = firstKey(doc);
  const lacking = (
    code: 'missing-field' | 'missing-harness' | 'missing-environment',
    message: string,
    path: string,
  ): void => {
    fault(check, code, message, home, path, compact<Extra>({ hint: lackingHint(doc, path) }));
  };
  const name = optional(check, root, 'name', ownName);
  if (!root.node.entries.has('name')) lacking('missing-field', 'Agent requires name', 'name');
  if (!root.node.entries.has('harness')) lacking('missing-harness', diagnosticCodes['missing-harness'], 'harness');
  if (!root.node.entries.has('environment'))
    lacking('missing-environment', diagnosticCodes['missing-environment'], 'environment');
  const harness = optional(check, root, 'harness', reading(agentFields.harness));
  const environment = readEnvironment(check, root, input);
  const identity = readIdentity(check, root, name?.name);
  const triggers = optional(check, root, 'triggers', checkTriggers) ?? [];
  const body = readBody(check, root, input, harness, triggers);
  const lint = lintDocument(root, triggers, report);
  const endpoints = triggers.flatMap((draft) => (draft.endpoint === undefined ? [] : [endpointDraft(draft.endpoint)]));
  const environmentName = environment.generated?.name ?? environment.ref?.name;
  const identityName = identity.generated?.name ?? identity.ref?.name;
  const names = { harness, environment: environmentName, identity: identityName };
  const spec = check.errors === 0 ? canonical(body, names) : undefined;
  const origins = input.origins === undefined || spec === undefined ? undefined : originsOf(doc, spec, triggers);
  return compact<AgentDraft>({
    origins,
    file: doc.file,
    document: doc.document,
    name,
    spec,
    environment: environment.generated,
    environmentRef: environment.ref,
    identity: identity.generated,
    identityRef: identity.ref,
    brokenEnvironment: environment.broken,
    brokenIdentity: identity.broken,
    endpoints,
    lint,
    home,
    parts:
      spec === undefined
        ? []
        : partsOf(root, triggers, {
            // A document without an error has a name.
            agent: name as NameRef,
            environment: environment.generated,
            identity: identity.generated,
          }),
  });
}

/** The root without keys that hold nothing: a bare `key:` counts as not written (docs/reference/compile.md#files). */
function rootSpot(doc: MergedDocument): MapRef {
  const entries = new Map<string, MapEntry>();
  for (const [key, entry] of doc.root.entries) {
    if (scalarOf(entry.value) !== null) entries.set(key, entry);
  }
  const node: MapNode = { kind: 'map', entries, range: doc.root.range };
  return { node, key: doc.root.range, trail: null };
}

/** What is missing in a document that is no agent by itself often belongs to the one above it. */
function lackingHint(doc: MergedDocument, path: string): string | undefined {
  const isRest = doc.document > 0 && !doc.own.entries.has('name') && !doc.own.entries.has('imports');
  return isRest ? 'A line --- begins another agent; remove it if this belongs to the one above.' : exampleAt([path]);
}

function firstKey(doc: MergedDocument): Range {
  const first = doc.own.entries.values().next().value;
  return first?.keyRange ?? doc.own.range;
}

const ownName: Reader<NameRef> = (check, at) => {
  const name = string(check, at, 'a name')?.trim();
  if (name === undefined) return undefined;
  if (resourceNamePattern.test(name)) return { name, range: at.node.range, path: 'name' };
  return wrongName(check, at, name);
};

interface Generating<G> {
  readonly generated?: G;
  readonly ref?: NameRef;
  readonly broken?: string;
}

/** A field that holds the name of a resource or the inline resource itself. */
function nameOrInline<G>(
  check: Check,
  root: MapRef,
  key: string,
  inline: (spot: MapRef) => G | undefined,
): Generating<G> {
  const at = field(root, key);
  if (at === undefined) return {};
  if (at.node.kind === 'map') {
    const map = at as MapRef;
    const generated = inline(map);
    const named = field(map, 'name');
    const name = named && scalarOf(named.node);
    const broken = generated === undefined && typeof name === 'string' ? name : undefined;
    return compact<Generating<G>>({ generated, ref: undefined, broken });
  }
  if (typeof scalarOf(at.node) === 'string') {
    const name = resourceName(check, at);
    return name === undefined ? {} : { ref: { name, range: at.node.range, path: key } };
  }
  wrong(check, at, `the name of an ${key} or an inline ${key}`, { code: 'invalid-type' });
  return {};
}

const readEnvironment = (
  check: Check,
  root: MapRef,
  input: Pick<CompileInput, 'catalog'>,
): Generating<Generated<EnvironmentSpec>> =>
  nameOrInline(check, root, 'environment', (spot) => checkEnvironment(check, spot, input.catalog));

const readIdentity = (check: Check, root: MapRef, agentName: string | undefined): Generating<GeneratedIdentity> =>
  nameOrInline(check, root, 'identity', (spot) => checkIdentity(check, spot, agentName));

type Body = {
  readonly [K in Exclude<keyof AgentSpec, 'harness' | 'environment' | 'identity'>]: AgentSpec[K] | undefined;
};

/** Fields that their table alone judges, or a reader that needs no other field but the model. */
const plainFields = without(
  agentFields,
  ...(['name', 'imports', 'import', 'variables', 'remove', 'harness', 'model', 'environment', 'identity'] as const),
  ...(['mounts', 'tools', 'triggers', 'replace', 'bindings'] as const),
);

function readBody(
  check: Check,
  root: MapRef,
  input: Pick<CompileInput, 'catalog'>,
  harness: Harness | undefined,
  triggers: readonly TriggerDraft[],
): Body {
  const { catalog } = input;
  const model = optional(check, root, 'model', (_, at) => checkModel(check, at, harness, catalog));
  const declaredModel = model ?? (root.node.entries.has('model') ? 'wrong' : undefined);
  const { mounts, isGrantKnown } = optional(check, root, 'mounts', checkMounts) ?? { mounts: [], isGrantKnown: true };
  const granting = isGrantKnown ? mounts : undefined;
  const replace = checkReplace(check, root);
  const declared = optional(check, root, 'bindings', checkBindings);
  const inline = triggers.flatMap((draft) => draft.routing?.inline ?? []);
  checkHeld(check, [...(declared?.values ?? []), ...inline], isReleased(triggers));
  crossCheck(check, root, triggers);
  const effort: Reader<ReasoningEffort> = (_, at) => checkEffort(check, at, harness, declaredModel, catalog);
  const plain = readFields(check, root, plainFields, {
    env: envMap,
    spendCaps: checkSpendCaps,
    reasoningEffort: effort,
    workingDirectory,
  });
  return {
    ...(plain as Pick<Body, keyof typeof plainFields>),
    model,
    mounts,
    tools:
      optional(check, root, 'tools', (_, at) => checkTools(check, at, { harness, mounts: granting, catalog })) ?? {},
    triggers: triggers.flatMap((draft) => draft.triggers),
    replace,
    bindings: foldBindings(check, declared, inline),
  };
}

/**
 * `replace` needs `concurrency`; `onReplace` needs `replace: auto`. Each is wrong at the dependent key
 * (docs/reference/compile.md#output).
 */
function checkReplace(check: Check, root: MapRef): 'auto' | undefined {
  const replace = optional(check, root, 'replace', reading(agentFields.replace));
  const at = field(root, 'replace');
  const onReplace = field(root, 'onReplace');
  if (at !== undefined && !root.node.entries.has('concurrency')) {
    const message = diagnosticCodes['replace-requires-concurrency'];
    fault(check, 'replace-requires-concurrency', message, at.key, 'replace', {
      hint: 'Add concurrency: 1.',
    });
  }
  if (onReplace !== undefined && at === undefined) {
    const message = 'onReplace requires replace: auto';
    fault(check, 'on-replace-requires-replace', message, onReplace.key, 'onReplace', {
      hint: 'Add replace: auto and concurrency: 1.',
    });
  }
  return replace;
}

function endpointDraft(endpoint: NonNullable<TriggerDraft['endpoint']>): EndpointDraft {
  const { name, spot, auth, authSpot } = endpoint;
  const range = spot.node.range;
  return compact<EndpointDraft>({
    name,
    range,
    path: pathOf(spot.trail),
    auth,
    authRange: authSpot?.node.range,
    authPath: authSpot && pathOf(authSpot.trail),
  });
}

type Names = { readonly [K in 'harness' | 'environment' | 'identity']: AgentSpec[K] | undefined };

/** The spec of a document without an error, in the order of the table of fields. */
function canonical(body: Body, names: Names): AgentSpec {
  const all: { readonly [key: string]: unknown } = { ...body, ...names };
  const kept = Object.keys(agentFields).flatMap((key) => (all[key] === undefined ? [] : [[key, all[key]] as const]));
  // Body and names have every field of a spec, those that must be there among them.
  return Object.fromEntries(kept) as unknown as AgentSpec;
}

// Spend caps (docs/reference/compile.md#text-and-limits): decimals as texts, kept in one spelling.

const spendCapPattern = /^(\d{1,10})(?:\.(\d{1,10}))?$/;

/**
 * The canonical text of a spend cap: no leading zeros, no trailing ones in the fraction
 * (docs/reference/compile.md#text-and-limits); null where it is none.
 */
export function canonicalCap(written: string): string | null {
  const found = spendCapPattern.exec(written);
  if (found === null) return null;
  const whole = (found[1] as string).replace(/^0+(?=\d)/, '');
  const fraction = withoutEnd(found[2] ?? '', '0');
  return fraction === '' ? whole : `${whole}.${fraction}`;
}

const spendCap: Reader<string> = (check, spot) => {
  const value = scalarOf(spot.node);
  const cap = typeof value === 'string' ? canonicalCap(value) : null;
  if (cap !== null) return cap;
  const hint =
    typeof value === 'number'
      ? 'Put the number in quotes.'
      : 'Write digits, and a point with digits behind it where needed.';
  return wrong(check, spot, spendCaps.fields.dailyUsd.what, {
    code: spendCaps.fields.dailyUsd.code,
    hint,
  });
};

/** `wrong` says what a cap is; where a number stands, that quotes are missing. */
export const checkSpendCaps: Reader<NonNullable<AgentSpec['spendCaps']>> = (check, spot) => {
  const found = strict(check, spot, keysOf(spendCaps));
  const caps = { dailyUsd: spendCap, monthlyUsd: spendCap, maxPerSessionUsd: spendCap };
  return found && compact(readFields(check, found, spendCaps.fields, caps));
};
