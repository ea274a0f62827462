// A fake API server of Kubernetes over HTTPS, for tests: pods and claims with lists, watches, bookmarks, preconditions and
// strict decoding, who may do what by a Role, pod security, a quota, exec by WebSocket. Its truth is judged by the real
// kubectl (internal/adapters/engine/kubernetes.test.ts); what it has not is a scheduler, a kubelet and a network of pods.

import { randomUUID } from 'node:crypto';
import { createServer, type Server } from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { admit, discovery, RESOURCES, type Resource } from './api.ts';
import { type Certificates, makeCertificates } from './certificates.ts';
import { serveExec } from './exec.ts';
import { Kubelet } from './kubelet.ts';
import type { Runner } from './runner.ts';
import { type Fields, Refusal, selects, Store, type Stored } from './store.ts';

export interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}
export interface ClusterOptions {
  readonly runner: Runner;
  /** Of the one user. Default everything. */
  readonly rules?: readonly Rule[];
}
/** What a fault does: refuses, cuts before anything was done, or does it and cuts the answer. */
export type Fault = Refusal | 'cut' | 'cut-after';

export class FakeCluster {
  readonly store = new Store();
  readonly kubelet: Kubelet;
  readonly namespace = 'svc';
  readonly runtimeClasses = new Map<string, string>();
  token = 'first-token';
  rules: readonly Rule[];
  /** Pods at most. */
  quota = Number.POSITIVE_INFINITY;
  /** Asked before each request. */
  fault: (method: string, path: string) => Fault | undefined = () => undefined;
  /** `METHOD path` of all requests so far. */
  readonly requests: string[] = [];
  readonly execs = new Set<Duplex>();
  readonly #watches = new Set<ServerResponse>();
  readonly #server: Server;
  readonly #certificates: Certificates;
  #bookmarks: NodeJS.Timeout | undefined;

  private constructor(options: ClusterOptions, certificates: Certificates) {
    this.#certificates = certificates;
    this.kubelet = new Kubelet(this.store, options.runner);
    this.rules = options.rules ?? [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }];
    const { ca, cert, key } = certificates;
    this.#server = createServer({ ca, cert, key, requestCert: true, rejectUnauthorized: false });
    this.#server.on('request', (request, response) => void this.#answer(request, response));
    this.#server.on('upgrade', (request, socket, head) => this.#upgrade(request, socket, head));
  }

  static async start(options: ClusterOptions): Promise<FakeCluster> {
    const cluster = new FakeCluster(options, makeCertificates());
    await new Promise<void>((resolve) => cluster.#server.listen(0, '127.0.0.1', resolve));
    cluster.#bookmarks = setInterval(() => cluster.bookmark(), 500).unref();
    return cluster;
  }

  get url(): string {
    return `https://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** A kubeconfig as a person has one; `user` is what stands under the user. */
  kubeconfig(user: Fields = { token: this.token }): Fields {
    const data = Buffer.from(this.#certificates.ca).toString('base64');
    return {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'test',
      contexts: [{ name: 'test', context: { cluster: 'test', user: 'test', namespace: this.namespace } }],
      clusters: [{ name: 'test', cluster: { server: this.url, 'certificate-authority-data': data } }],
      users: [{ name: 'test', user }],
    };
  }

  get clientCertificate(): Fields {
    const { clientCert, clientKey } = this.#certificates;
    const data = (text: string): string => Buffer.from(text).toString('base64');
    return { 'client-certificate-data': data(clientCert), 'client-key-data': data(clientKey) };
  }

  get ca(): string {
    return this.#certificates.ca;
  }

  pod(name: string): Stored {
    return this.store.get('pods', name);
  }

  /** Tells every watch how far it is. */
  bookmark(): void {
    for (const response of this.#watches) response.emit('bookmark');
  }

  cutWatches(): void {
    for (const response of this.#watches) response.destroy();
  }

  cutExecs(): void {
    for (const socket of this.execs) socket.destroy();
  }

  async stop(): Promise<void> {
    clearInterval(this.#bookmarks);
    this.cutWatches();
    this.cutExecs();
    await this.kubelet.stop();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #authenticate(request: IncomingMessage): void {
    const isToken = request.headers.authorization === `Bearer ${this.token}`;
    if (!isToken && !(request.socket as TLSSocket).authorized) throw new Refusal(401, 'Unauthorized', 'Unauthorized');
  }

  may(verb: string, { group, name }: Pick<Resource, 'group' | 'name'>, subresource?: string): boolean {
    const resource = subresource === undefined ? name : `${name}/${subresource}`;
    const has = (list: readonly string[], one: string): boolean => list.includes('*') || list.includes(one);
    return this.rules.some(
      (rule) => has(rule.apiGroups, group) && has(rule.resources, resource) && has(rule.verbs, verb),
    );
  }

  #authorize(verb: string, resource: Resource, subresource?: string): void {
    if (this.may(verb, resource, subresource)) return;
    const what = subresource === undefined ? resource.name : `${resource.name}/${subresource}`;
    const words = `User "test" cannot ${verb} resource "${what}" in API group "${resource.group}" in the namespace "svc"`;
    throw new Refusal(403, 'Forbidden', `${resource.name} is forbidden: ${words}`, { kind: resource.name });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const url = new URL(request.url ?? '/', this.url);
    const { method = 'GET' } = request;
    this.requests.push(`${method} ${url.pathname}${url.search}`);
    const send = (code: number, body: unknown): void => {
      response.writeHead(code, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
    };
    try {
      const fault = this.fault(method, url.pathname);
      if (fault === 'cut') return void request.socket.destroy();
      if (fault instanceof Refusal) throw fault;
      this.#authenticate(request);
      const text = Buffer.concat(parts).toString('utf8');
      const body = text === '' ? {} : (JSON.parse(text) as Fields);
      const answer = this.#route(method, url, body, response);
      if (fault === 'cut-after') return void request.socket.destroy();
      if (answer !== undefined) send(answer.code, answer.body);
    } catch (error) {
      if (error instanceof Refusal) send(error.code, error.status);
      else throw error;
    }
  }

  /** Undefined: the answer goes on. */
  #route(
    method: string,
    url: URL,
    body: Fields,
    response: ServerResponse,
  ): { code: number; body: unknown } | undefined {
    const found = discovery(url.pathname);
    if (found !== undefined) return { code: 200, body: found };
    if (url.pathname === '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews')
      return { code: 201, body: this.#review(body) };
    const runtime = /^\/apis\/node\.k8s\.io\/v1\/runtimeclasses\/([^/]+)$/.exec(url.pathname)?.[1];
    if (runtime !== undefined) return { code: 200, body: this.#runtimeClass(runtime) };
    const { resource, name } = place(url.pathname);
    const key = resource.key;
    if (method === 'POST' && name === undefined) {
      this.#authorize('create', resource);
      return { code: 201, body: this.#create(resource, body) };
    }
    if (method === 'DELETE' && name !== undefined) {
      this.#authorize('delete', resource);
      return { code: 200, body: this.#delete(resource, this.store.get(key, name), body) };
    }
    if (method !== 'GET') throw new Refusal(405, 'MethodNotAllowed', 'the server does not allow this method');
    if (name !== undefined) {
      this.#authorize('get', resource);
      return { code: 200, body: this.store.get(key, name) };
    }
    const isWatch = ['1', 'true'].includes(url.searchParams.get('watch') ?? '');
    this.#authorize(isWatch ? 'watch' : 'list', resource);
    if (!isWatch) return { code: 200, body: this.#list(resource, url.searchParams) };
    this.#watch(resource, url.searchParams, response);
    return undefined;
  }

  #review(body: Fields): unknown {
    const { resourceAttributes: asked = {} } = body['spec'] as {
      resourceAttributes?: { verb?: string; resource?: string; group?: string; subresource?: string };
    };
    const { verb = '', resource = '', group = '', subresource } = asked;
    return { ...body, status: { allowed: this.may(verb, { group, name: resource }, subresource) } };
  }

  #runtimeClass(name: string): unknown {
    this.#authorize('get', {
      key: '',
      name: 'runtimeclasses',
      group: 'node.k8s.io',
      version: 'v1',
      kind: 'RuntimeClass',
    });
    const handler = this.runtimeClasses.get(name);
    if (handler !== undefined)
      return { apiVersion: 'node.k8s.io/v1', kind: 'RuntimeClass', metadata: { name }, handler };
    throw new Refusal(404, 'NotFound', `runtimeclasses.node.k8s.io "${name}" not found`, { kind: 'runtimeclasses' });
  }

  #create(resource: Resource, body: Fields): Stored {
    admit(resource, body, this.runtimeClasses);
    const metadata = body['metadata'] as Stored['metadata'];
    if (resource.name === 'pods' && this.store.all('pods').length >= this.quota)
      throw new Refusal(
        403,
        'Forbidden',
        `pods "${metadata.name}" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=${this.quota}, limited: pods=${this.quota}`,
      );
    if (this.store.has(resource.key, metadata.name))
      throw new Refusal(409, 'AlreadyExists', `${resource.name} "${metadata.name}" already exists`, {
        name: metadata.name,
      });
    const creationTimestamp = new Date().toISOString().replace(/\.\d+Z$/, 'Z');
    const own = { ...metadata, namespace: this.namespace, uid: randomUUID(), resourceVersion: '', creationTimestamp };
    return this.store.put(resource.key, { ...(body as unknown as Stored), metadata: own });
  }

  #delete(resource: Resource, object: Stored, options: Fields): Stored {
    const { uid } = (options['preconditions'] ?? {}) as { uid?: string };
    const { name } = object.metadata;
    if (uid !== undefined && uid !== object.metadata.uid)
      throw new Refusal(
        409,
        'Conflict',
        `Operation cannot be fulfilled on ${resource.name} "${name}": the UID in the precondition (${uid}) does not match the UID in record (${object.metadata.uid})`,
      );
    if (resource.name !== 'pods') {
      this.store.remove(resource.key, object);
      this.kubelet.released(object);
      return object;
    }
    if (object.metadata.deletionTimestamp !== undefined) return object;
    const deletionTimestamp = new Date().toISOString().replace(/\.\d+Z$/, 'Z');
    const metadata = { ...object.metadata, deletionTimestamp, deletionGracePeriodSeconds: 1 };
    const marked = this.store.put(resource.key, { ...object, metadata });
    this.kubelet.delete(marked);
    return marked;
  }

  #selected(object: Stored, params: URLSearchParams): boolean {
    const field = /^metadata\.name=(.+)$/.exec(params.get('fieldSelector') ?? '')?.[1];
    if (field !== undefined && field !== object.metadata.name) return false;
    return selects(params.get('labelSelector') ?? '', object.metadata.labels);
  }

  #list(resource: Resource, params: URLSearchParams): unknown {
    const all = this.store.all(resource.key).filter((one) => this.#selected(one, params));
    const [version, from] = (params.get('continue') ?? `${this.store.version} 0`).split(' ').map(Number);
    if (params.has('continue')) this.store.since(version ?? 0);
    const limit = Number(params.get('limit') ?? 0) || all.length;
    const items = all.slice(from, (from ?? 0) + limit);
    const rest = all.length - (from ?? 0) - items.length;
    const metadata = {
      resourceVersion: String(version),
      ...(rest > 0 && { continue: `${version} ${(from ?? 0) + limit}`, remainingItemCount: rest }),
    };
    return { kind: `${resource.kind}List`, apiVersion: versionOf(resource), metadata, items };
  }

  #watch(resource: Resource, params: URLSearchParams, response: ServerResponse): void {
    const begin = params.get('sendInitialEvents') === 'true';
    const from = params.get('resourceVersion') ?? '';
    const bookmarks = params.get('allowWatchBookmarks') === 'true';
    const write = (type: string, object: unknown): void => void response.write(`${JSON.stringify({ type, object })}\n`);
    const bookmark = (annotations?: Fields): void => {
      const metadata = {
        resourceVersion: String(this.store.version),
        ...(annotations !== undefined && { annotations }),
      };
      write('BOOKMARK', { kind: resource.kind, apiVersion: versionOf(resource), metadata });
    };
    const tell = (change: { type: string; resource: string; object: Stored; before: Stored | undefined }): void => {
      if (change.resource !== resource.key) return;
      const was = change.before !== undefined && this.#selected(change.before, params);
      const is = change.type !== 'DELETED' && this.#selected(change.object, params);
      if (is) write(was ? 'MODIFIED' : 'ADDED', change.object);
      else if (was) write('DELETED', change.object);
    };
    const past = begin || from === '' || from === '0' ? null : this.store.since(Number(from));
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    if (past === null)
      for (const one of this.store.all(resource.key)) if (this.#selected(one, params)) write('ADDED', one);
    for (const change of past ?? []) tell(change);
    if (begin && bookmarks) bookmark({ 'k8s.io/initial-events-end': 'true' });
    const leave = this.store.on(tell);
    this.#watches.add(response);
    response.on('bookmark', () => bookmarks && bookmark());
    const seconds = Number(params.get('timeoutSeconds') ?? 300);
    const timer = setTimeout(() => response.end(), seconds * 1_000).unref();
    response.on('close', () => {
      clearTimeout(timer);
      leave();
      this.#watches.delete(response);
    });
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const url = new URL(request.url ?? '/', this.url);
    const { method = 'GET' } = request;
    this.requests.push(`${method} ${url.pathname}${url.search}`);
    try {
      const fault = this.fault(method, url.pathname);
      if (fault instanceof Refusal) throw fault;
      if (fault !== undefined) return void socket.destroy();
      this.#authenticate(request);
      const { resource, name = '', subresource } = place(url.pathname);
      if (subresource !== 'exec') throw new Refusal(400, 'BadRequest', 'no such subresource');
      this.#authorize('get', resource, 'exec');
      if (!this.may('create', resource, 'exec')) this.#authorize('create', resource, 'exec');
      const pod = this.store.get('pods', name);
      const running = this.kubelet.running.get(pod.metadata.uid);
      if (running === undefined) throw new Refusal(400, 'BadRequest', `container svc is not running in pod ${name}`);
      this.execs.add(socket);
      socket.on('close', () => this.execs.delete(socket));
      serveExec(request, socket, head, running, url.searchParams);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const body = JSON.stringify(error.status);
      const lines = [
        `HTTP/1.1 ${error.code} ${error.reason}`,
        'content-type: application/json',
        `content-length: ${Buffer.byteLength(body)}`,
        'connection: close',
        '',
        body,
      ];
      socket.end(lines.join('\r\n'));
    }
  }
}

const versionOf = ({ group, version }: Resource): string => (group === '' ? version : `${group}/${version}`);

function place(path: string): { resource: Resource; name?: string | undefined; subresource?: string | undefined } {
  const [, base, namespace, resourceName, name, subresource] =
    /^(\/api\/v1|\/apis\/[^/]+\/[^/]+)\/namespaces\/([^/]+)\/([^/]+)(?:\/([^/]+))?(?:\/([^/]+))?$/.exec(path) ?? [];
  const group = base === '/api/v1' ? '' : (base?.split('/')[2] ?? '');
  const resource = RESOURCES.find((one) => one.name === resourceName && one.group === group);
  if (resource === undefined) throw new Refusal(404, 'NotFound', 'the server could not find the requested resource');
  if (namespace !== 'svc')
    throw new Refusal(404, 'NotFound', `namespaces "${namespace}" not found`, { name: namespace, kind: 'namespaces' });
  return { resource, name: name === undefined ? undefined : decodeURIComponent(name), subresource };
}
