// What the fake API server knows: its resources, their discovery as kubectl asks for it, and what it admits: nothing that
// the published schemas do not name, and no pod below the `restricted` level of pod security.

import { claimWrongs, wrongs } from './fields.ts';
import { CLAIMS } from './kubelet.ts';
import { type Fields, Refusal } from './store.ts';

export interface Resource {
  /** In the store. */
  readonly key: string;
  readonly name: string;
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

export const RESOURCES: readonly Resource[] = [
  { key: 'pods', name: 'pods', group: '', version: 'v1', kind: 'Pod' },
  { key: CLAIMS, name: 'sandboxclaims', group: 'extensions.agents.x-k8s.io', version: 'v1beta1', kind: 'SandboxClaim' },
];
const VERBS = ['create', 'delete', 'get', 'list', 'watch'];

/** An answer of `/version`, `/api`, `/apis` and below; undefined for objects. */
export function discovery(path: string): unknown {
  if (path === '/version') return { major: '1', minor: '34', gitVersion: 'v1.34.1', platform: 'linux/amd64' };
  if (path === '/api') return { kind: 'APIVersions', versions: ['v1'] };
  const groups = [
    ...new Set(RESOURCES.filter(({ group }) => group !== '').map(({ group, version }) => `${group}/${version}`)),
  ];
  if (path === '/apis') {
    const list = groups.map((groupVersion) => {
      const [name, version] = groupVersion.split('/');
      return { name, versions: [{ groupVersion, version }], preferredVersion: { groupVersion, version } };
    });
    return { kind: 'APIGroupList', apiVersion: 'v1', groups: list };
  }
  const asked = /^\/api\/(v1)$/.exec(path)?.[1] ?? /^\/apis\/([^/]+\/[^/]+)$/.exec(path)?.[1];
  if (asked === undefined || (asked !== 'v1' && !groups.includes(asked))) return undefined;
  const own = RESOURCES.filter(({ group, version }) => (group === '' ? version : `${group}/${version}`) === asked);
  const resources = own.flatMap(({ name, kind }) => [
    { name, singularName: kind.toLowerCase(), namespaced: true, kind, verbs: VERBS },
    ...(name === 'pods'
      ? [{ name: 'pods/exec', singularName: '', namespaced: true, kind: 'PodExecOptions', verbs: ['create', 'get'] }]
      : []),
  ]);
  return { kind: 'APIResourceList', apiVersion: 'v1', groupVersion: asked, resources };
}

const QUANTITY = /^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$/;

/** What the server says of the values, beyond their kinds. */
function invalid(body: Fields): string[] {
  const { containers = [] } = body['spec'] as {
    containers?: readonly { resources?: { limits?: Fields; requests?: Fields } }[];
  };
  return containers.flatMap(({ resources: { limits = {}, requests = {} } = {} }, at) =>
    Object.entries({ ...limits, ...requests }).flatMap(([name, value]) =>
      QUANTITY.test(String(value))
        ? []
        : [`spec.containers[${at}].resources.${name}: Invalid value: quantities must match the regular expression`],
    ),
  );
}

interface SecurityContext {
  readonly runAsNonRoot?: boolean;
  readonly allowPrivilegeEscalation?: boolean;
  readonly capabilities?: { readonly drop?: readonly string[]; readonly add?: readonly string[] };
  readonly seccompProfile?: { readonly type?: string };
}

/** The `restricted` level of the Pod Security Standards, as its admission words it. */
function restricted(spec: Fields): string[] {
  const {
    securityContext: pod = {},
    containers = [],
    volumes = [],
  } = spec as {
    securityContext?: SecurityContext;
    containers?: readonly { name: string; securityContext?: SecurityContext }[];
    volumes?: readonly Fields[];
  };
  const found = containers.flatMap(({ name, securityContext: own = {} }) => [
    ...(own.allowPrivilegeEscalation === false
      ? []
      : [
          `allowPrivilegeEscalation != false (container "${name}" must set securityContext.allowPrivilegeEscalation=false)`,
        ]),
    ...(own.capabilities?.drop?.includes('ALL') === true && (own.capabilities.add ?? []).length === 0
      ? []
      : [`unrestricted capabilities (container "${name}" must set securityContext.capabilities.drop=["ALL"])`]),
    ...((own.runAsNonRoot ?? pod.runAsNonRoot) === true
      ? []
      : [`runAsNonRoot != true (pod or container "${name}" must set securityContext.runAsNonRoot=true)`]),
    ...((own.seccompProfile ?? pod.seccompProfile)?.type === 'RuntimeDefault'
      ? []
      : [
          `seccompProfile (pod or container "${name}" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`,
        ]),
  ]);
  const odd = volumes.filter(
    (one) => !('emptyDir' in one || 'configMap' in one || 'secret' in one || 'projected' in one),
  );
  return [...found, ...odd.map(({ name }) => `restricted volume types (volume "${String(name)}")`)];
}

/** Throws Refusal for what a server with strict decoding, and a namespace of that level, do not take. */
export function admit(resource: Resource, body: Fields, runtimeClasses: ReadonlyMap<string, string>): void {
  const name = (body['metadata'] as { name?: string } | undefined)?.name ?? '';
  const unknown = resource.kind === 'Pod' ? wrongs(body, 'V1Pod', 'pod') : claimWrongs(body);
  if (unknown.length > 0)
    throw new Refusal(
      400,
      'BadRequest',
      `${resource.kind} in version "${resource.version}" cannot be handled: strict decoding error: ${unknown.join(', ')}`,
    );
  if (!/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(name))
    throw new Refusal(422, 'Invalid', `${resource.kind} "${name}" is invalid: metadata.name: Invalid value`);
  if (resource.kind !== 'Pod') return;
  const causes = invalid(body);
  if (causes.length > 0)
    throw new Refusal(422, 'Invalid', `Pod "${name}" is invalid: ${causes.join(', ')}`, {
      causes: causes.map((message) => ({ message })),
    });
  const spec = body['spec'] as Fields;
  const runtime = spec['runtimeClassName'];
  if (typeof runtime === 'string' && !runtimeClasses.has(runtime))
    throw new Refusal(
      403,
      'Forbidden',
      `pods "${name}" is forbidden: pod rejected: RuntimeClass "${runtime}" not found`,
      { kind: 'pods' },
    );
  const found = restricted(spec);
  if (found.length > 0)
    throw new Refusal(
      403,
      'Forbidden',
      `pods "${name}" is forbidden: violates PodSecurity "restricted:latest": ${found.join(', ')}`,
      { kind: 'pods' },
    );
}
