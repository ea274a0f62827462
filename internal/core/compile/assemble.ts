// From the drafts of all documents to the resources of the tree: what one document cannot know. Names stand once, generated
// environments and identities of one name have one content, names that are used exist, endpoints have one authentication, and
// avatars are what their bytes say (docs/reference/compile.md#environments, #identities and #output).

import { diagnosticCodes } from '../../domain/codes.ts';
import { canonicalJson } from '../../domain/json.ts';
import type { Range } from '../../domain/diagnostic.ts';
import type { EnvironmentSpec, IdentitySpec, Resource, ResourceKind } from '../../domain/spec.ts';
import { asJson } from '../../domain/spec.ts';
import { lintFallbacks } from '../lint/lint.ts';
import { avatarProblem, readImage } from './avatar.ts';
import type { AgentDraft, EndpointDraft } from './check-agent.ts';
import type { Generated } from './check-environment.ts';
import type { GeneratedIdentity } from './check-identity.ts';
import { pathOf } from './read.ts';
import type { CompileInput, CompileOutput, Report } from './types.ts';

export interface Assembled {
  /** Sorted by kind, then name. Of no use where an error was reported. */
  readonly resources: readonly Resource[];
  readonly assets: CompileOutput['assets'];
}

type Asset = CompileOutput['assets'][number];

/** Joins the drafts. Reads `input.bundle` for avatars, `input.catalog` for those that are shipped, and `input.sha256`. */
export function assemble(drafts: readonly AgentDraft[], input: CompileInput, report: Report): Assembled {
  checkNames(drafts, report);
  checkEndpoints(drafts, report);
  const assets = new Map<string, Asset>();
  const images = new Map<string, CheckedAsset>();
  const identities = drafts.map((draft) => draft.identity && withAvatar(draft.identity, input, images, assets, report));
  const sound = drafts.map(({ home }, index) => {
    const one = identities[index];
    return { one: one?.isSound === true ? one : undefined, home };
  });
  const environments = drafts.map(({ environment, home }) => ({ one: environment, home }));
  const resources = [
    ...agents(drafts),
    ...unify('Environment', environments, report, (name, spec) => ({ kind: 'Environment', name, spec })),
    ...unify('Identity', sound, report, (name, spec) => ({ kind: 'Identity', name, spec })),
  ];
  for (const finding of lintFallbacks(drafts.flatMap((draft) => draft.lint))) report(finding);
  checkReferences(drafts, report);
  return {
    resources: resources.toSorted(byKindAndName),
    assets: [...assets.values()].toSorted((a, b) => compare(a.path, b.path)),
  };
}

const compare = (left: string, right: string): number => (left < right ? -1 : left > right ? 1 : 0);
const byKindAndName = (left: Resource, right: Resource): number =>
  compare(left.kind, right.kind) || compare(left.name, right.name);

function agents(drafts: readonly AgentDraft[]): Resource[] {
  const resources: Resource[] = [];
  for (const draft of drafts) {
    if (draft.name === undefined || draft.spec === undefined) continue;
    const source = { file: draft.file, document: draft.document };
    resources.push({ kind: 'Agent', name: draft.name.name, source, spec: draft.spec });
  }
  return resources;
}

/** Groups what has one name, in the order of first appearance. */
function groupBy<T>(values: readonly T[], nameOf: (value: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const value of values) {
    const group = groups.get(nameOf(value));
    if (group === undefined) groups.set(nameOf(value), [value]);
    else group.push(value);
  }
  return groups;
}

const also = (message: string, range: Range) => ({ related: [{ message, range }] });

/**
 * A place of each one's own: the first of its choices, or where an import gave several documents the same place, the
 * first further choice that is not one of those.
 */
function apart(places: readonly (readonly [Range, ...Range[]])[]): Range[] {
  const print = (range: Range): string => `${range.start} ${range.file}`;
  const counts = new Map<string, number>();
  for (const [first] of places) counts.set(print(first), (counts.get(print(first)) ?? 0) + 1);
  return places.map(([first, ...others]) => {
    if (counts.get(print(first)) === 1) return first;
    return others.find((range) => !counts.has(print(range))) ?? first;
  });
}

function checkNames(drafts: readonly AgentDraft[], report: Report): void {
  const named = drafts.flatMap((draft) => (draft.name === undefined ? [] : [{ name: draft.name, home: draft.home }]));
  for (const [name, group] of groupBy(named, (one) => one.name.name)) {
    if (group.length < 2) continue;
    const places = apart(group.map((one) => [one.name.range, one.home]));
    const message = `Two agents have the name ${name}; names are unique in a project`;
    for (const [index, range] of places.entries()) {
      const other = places[index === 0 ? 1 : 0] ?? range;
      report({
        severity: 'error',
        code: 'name-duplicate',
        message,
        hint: 'Give one of the two another name.',
        range,
        path: 'name',
        ...also('the other one', other),
      });
    }
  }
}

const auths = new WeakMap<object, string>();

/** Of an endpoint with one. As with contents: a cache gives the same auth again to the next compile. */
function authOf({ auth }: EndpointDraft): string {
  const known = auth && auths.get(auth);
  if (known !== undefined) return known;
  const text = canonicalJson({ ...auth });
  if (auth !== undefined) auths.set(auth, text);
  return text;
}

function checkEndpoints(drafts: readonly AgentDraft[], report: Report): void {
  const declared = drafts.flatMap((draft) => draft.endpoints).filter((endpoint) => endpoint.auth !== undefined);
  for (const [name, places] of groupBy(declared, (endpoint) => endpoint.name)) {
    const first = places[0] as EndpointDraft;
    const auth = authOf(first);
    const other = places.find((place) => authOf(place) !== auth);
    if (other === undefined) continue;
    for (const place of places) {
      const against = authOf(place) === auth ? other : first;
      const message = `Two different auth for the webhook endpoint ${name}; declare it once, or alike`;
      const range = place.authRange ?? place.range;
      const path = place.authPath ?? place.path;
      report({
        severity: 'error',
        code: 'endpoint-auth-conflict',
        message,
        range,
        path,
        ...also('the other auth', against.authRange ?? against.range),
      });
    }
  }
}

const contents = new WeakMap<object, string>();

/** Canonical text of a spec, made once for each: a cache gives the same spec again to the next compile. */
function contentOf(spec: EnvironmentSpec | IdentitySpec): string {
  const known = contents.get(spec);
  if (known !== undefined) return known;
  const text = canonicalJson(asJson(spec));
  contents.set(spec, text);
  return text;
}

/** One resource for equal content; different content under one name is an error at every place. */
function unify<S extends EnvironmentSpec | IdentitySpec>(
  kind: ResourceKind,
  generated: readonly { readonly one: Generated<S> | undefined; readonly home: Range }[],
  report: Report,
  make: (name: string, spec: S) => Resource,
): Resource[] {
  const present = generated.flatMap(({ one, home }) => (one === undefined ? [] : [{ one, home }]));
  const resources: Resource[] = [];
  for (const [name, group] of groupBy(present, ({ one }) => one.name)) {
    const first = group[0];
    if (first === undefined) continue;
    resources.push(make(name, first.one.spec));
    const texts = group.map(({ one }) => contentOf(one.spec));
    const different = texts.findIndex((text) => text !== texts[0]);
    if (different === -1) continue;
    const places = apart(group.map(({ one, home }) => [one.range, one.key, home]));
    const message = `${diagnosticCodes['resource-conflict']}: ${kind} ${name} is declared with different content`;
    for (const [index, { one }] of group.entries()) {
      const range = places[index] ?? one.range;
      const against = places[texts[index] === texts[0] ? different : 0] ?? one.range;
      const related = also('the other declaration', against);
      const hint = 'Give one of them another name, or write both alike.';
      report({ severity: 'error', code: 'resource-conflict', message, hint, range, path: one.path, ...related });
    }
  }
  return resources;
}

/** A string environment must be generated in the tree; an identity may be stored already (docs/reference/compile.md#environments). */
function checkReferences(drafts: readonly AgentDraft[], report: Report): void {
  // A name that is generated wrongly counts as generated: its own error says enough.
  const environments = new Set(drafts.flatMap((draft) => draft.environment?.name ?? draft.brokenEnvironment ?? []));
  const identities = new Set(drafts.flatMap((draft) => draft.identity?.name ?? draft.brokenIdentity ?? []));
  for (const { environmentRef: environment, identityRef: identity } of drafts) {
    if (environment !== undefined && !environments.has(environment.name)) {
      const message = `Nothing in the tree generates the environment ${environment.name}`;
      const hint = 'Declare it inline with that name in one of the agents.';
      report({
        severity: 'error',
        code: 'environment-unknown',
        message,
        range: environment.range,
        path: environment.path,
        hint,
      });
    }
    if (identity !== undefined && !identities.has(identity.name)) {
      const message = `Nothing in the tree generates the identity ${identity.name}; apply will look for a stored one`;
      report({ severity: 'warning', code: 'identity-unknown', message, range: identity.range, path: identity.path });
    }
  }
}

interface CheckedAsset {
  readonly problem: string | null;
  readonly sha256: string;
  readonly mediaType: Asset['mediaType'];
}

/** The identity with the hash of its avatar's bytes; what is wrong with them is reported at `asset`. */
function withAvatar(
  identity: GeneratedIdentity,
  input: CompileInput,
  images: Map<string, CheckedAsset>,
  assets: Map<string, Asset>,
  report: Report,
): GeneratedIdentity {
  const { avatar } = identity.spec;
  const { asset, sha256 } = identity;
  if (avatar === undefined || asset === undefined) return identity;
  const at = { range: asset.node.range, path: pathOf(asset.trail) };
  const invalid = (problem: string): GeneratedIdentity => {
    report({ severity: 'error', code: 'avatar-invalid', message: `The avatar ${avatar.asset} ${problem}`, ...at });
    return identity;
  };
  const entry = input.bundle.entries.get(avatar.asset);
  if (entry === undefined) {
    if (avatar.sha256 !== undefined) return identity; // Apply looks for the hash among stored and shipped avatars.
    const message = `The avatar ${avatar.asset} does not exist`;
    report({
      severity: 'error',
      code: 'avatar-missing',
      message,
      ...at,
      hint: 'Add the file, or pin a stored avatar with sha256.',
    });
    return identity;
  }
  if (entry.kind !== 'file') return invalid(`is a ${entry.kind}, not a file`);
  if (entry.tooLarge === true || entry.bytes === undefined) return invalid('is too large; at most 2 MiB are accepted');
  const image = images.get(avatar.asset) ?? inspect(entry.bytes, input);
  images.set(avatar.asset, image);
  if (image.problem !== null) return invalid(image.problem);
  if (sha256 !== undefined && avatar.sha256 !== image.sha256) {
    const message = `avatar.sha256 is not the hash of ${avatar.asset}, which is ${image.sha256}; that one is stored`;
    report({
      severity: 'warning',
      code: 'avatar-hash-mismatch',
      message,
      range: sha256.node.range,
      path: pathOf(sha256.trail),
    });
  }
  assets.set(
    image.sha256,
    assets.get(image.sha256) ?? { sha256: image.sha256, path: avatar.asset, mediaType: image.mediaType },
  );
  return { ...identity, spec: { ...identity.spec, avatar: { asset: avatar.asset, sha256: image.sha256 } } };
}

function inspect(bytes: Uint8Array, input: CompileInput): CheckedAsset {
  const mediaType = readImage(bytes)?.mediaType ?? 'image/png';
  return { problem: avatarProblem(bytes), sha256: input.sha256(bytes), mediaType };
}
