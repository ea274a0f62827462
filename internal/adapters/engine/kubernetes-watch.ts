// The pods of an installation as they are now, kept by one list and one watch for all its boxes: a watch that ends goes on
// where it was, one that is too old (410) begins with a list again, and what a list no longer holds is told as deleted.

import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError, type ApiStatus, type KubernetesClient } from './kubernetes-client.ts';
import type { List, Pod } from './kubernetes-types.ts';

/** The server ends a watch after so long; one that says nothing for longer is dead. */
const watchSeconds = 240;
const silentMs = 30_000 + watchSeconds * 1_000;
const retryMs = [200, 500, 1_000, 2_000, 5_000] as const;
const pageText = '500';

export const podsPath = (namespace: string): string => `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`;

/** All objects of a list, page by page; a list that changed too much meanwhile is read anew. Throws ApiError. */
export async function listAll<T>(
  client: KubernetesClient,
  path: string,
  labelSelector: string,
  signal?: AbortSignal,
): Promise<{ readonly items: readonly T[]; readonly resourceVersion: string }> {
  for (let tries = 1; ; tries += 1) {
    const items: T[] = [];
    let next = '';
    try {
      for (;;) {
        const query = { labelSelector, limit: pageText, ...(next !== '' && { continue: next }) };
        const page: List<T> = await client.request<List<T>>({ method: 'GET', path, query, signal });
        items.push(...(page.items ?? []));
        next = page.metadata?.continue ?? '';
        if (next === '') return { items, resourceVersion: page.metadata?.resourceVersion ?? '' };
      }
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 410 || tries === 3) throw error;
    }
  }
}

/** Null: it is gone. */
export type PodListener = (pod: Pod | null) => void;

interface WatchEvent {
  readonly type?: string;
  readonly object?: Pod & ApiStatus;
}

export class PodWatch {
  readonly #client: KubernetesClient;
  readonly #namespace: string;
  readonly #selector: string;
  readonly #pods = new Map<string, Pod>();
  readonly #listeners = new Map<string, Set<PodListener>>();
  readonly #stopped = new AbortController();
  #version = '';
  #first: PromiseWithResolvers<void> | undefined;
  #running: Promise<void> | undefined;

  constructor(client: KubernetesClient, namespace: string, selector: string) {
    this.#client = client;
    this.#namespace = namespace;
    this.#selector = selector;
  }

  /** When what is there is known. Throws ApiError or UnreachableError where the first list fails; the next call tries again. */
  async ready(): Promise<void> {
    if (this.#running === undefined) {
      const first = Promise.withResolvers<void>();
      this.#first = first;
      this.#running = this.#run(first);
    }
    await this.#first?.promise;
  }

  /** Hears of the pod of this name: at once as it is, then of each change. Gives what ends that. */
  on(name: string, listener: PodListener): () => void {
    const found = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, found.add(listener));
    listener(this.#pods.get(name) ?? null);
    return () => {
      found.delete(listener);
      if (found.size === 0) this.#listeners.delete(name);
    };
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#running;
  }

  async #run(first: PromiseWithResolvers<void>): Promise<void> {
    const { signal } = this.#stopped;
    try {
      await this.#list();
      first.resolve();
    } catch (error) {
      this.#running = undefined;
      first.reject(error);
      return;
    }
    for (let failures = 0; !signal.aborted; ) {
      try {
        if (this.#version === '') await this.#list();
        const began = performance.now();
        await this.#watch();
        // One that ends as soon as it began is no news either: something between cuts it.
        failures = performance.now() - began < 1_000 ? failures + 1 : 0;
        if (failures > 0) await this.#pause(failures);
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof ApiError && error.code === 410) this.#version = '';
        failures += 1;
        await this.#pause(failures);
      }
    }
  }

  /** Ends early where the watch is stopped. */
  async #pause(failures: number): Promise<void> {
    const wait = retryMs[Math.min(failures, retryMs.length) - 1];
    await sleep(wait, undefined, { signal: this.#stopped.signal }).catch(() => undefined);
  }

  async #list(): Promise<void> {
    const path = podsPath(this.#namespace);
    const { items, resourceVersion } = await listAll<Pod>(this.#client, path, this.#selector, this.#stopped.signal);
    const names = new Set(items.map(({ metadata }) => metadata?.name));
    for (const name of [...this.#pods.keys()]) if (!names.has(name)) this.#set(name, null);
    for (const pod of items) this.#set(pod.metadata?.name ?? '', pod);
    this.#version = resourceVersion;
  }

  /** Until the server ends it. A resource version that it no longer has begins with a list the next time. */
  async #watch(): Promise<void> {
    const silent = new AbortController();
    const timer = setTimeout(() => silent.abort(), silentMs).unref();
    const query = {
      labelSelector: this.#selector,
      watch: 'true',
      allowWatchBookmarks: 'true',
      resourceVersion: this.#version,
      timeoutSeconds: String(watchSeconds),
    };
    const signal = AbortSignal.any([this.#stopped.signal, silent.signal]);
    try {
      for await (const line of this.#client.lines({ path: podsPath(this.#namespace), query, signal })) {
        timer.refresh();
        this.#take(line as WatchEvent);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  #take({ type, object = {} }: WatchEvent): void {
    if (type === 'ERROR') throw new ApiError(object.code ?? 500, object);
    if (object.metadata?.resourceVersion !== undefined) this.#version = object.metadata.resourceVersion;
    const name = object.metadata?.name ?? '';
    if (type === 'ADDED' || type === 'MODIFIED') this.#set(name, object);
    if (type === 'DELETED') this.#set(name, null, object.metadata?.uid);
  }

  #set(name: string, pod: Pod | null, uid?: string): void {
    // A pod that was made again under its name outlives the news of the first one's end.
    if (pod === null && uid !== undefined && this.#pods.get(name)?.metadata?.uid !== uid) return;
    if (pod === null) this.#pods.delete(name);
    else this.#pods.set(name, pod);
    for (const listener of this.#listeners.get(name) ?? []) listener(pod);
  }
}
