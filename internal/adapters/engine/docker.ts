// Docker and Podman over their API. A box is a container of user 1000 without capabilities and with a read-only root; home,
// work and mounts lie on the session's one volume, which outlives it. Names and labels say whose everything is.

import { randomUUID } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { within } from '../../base/waits.ts';
import { type DockerAnswer, type DockerAddress, DockerClient, field, messageOf, textField } from './docker-client.ts';
import { bodyOf, boxName, directoriesTar, labelsOf, madeDirectly, ownerOf, volumeNames } from './docker-box.ts';
import { pull } from './docker-image.ts';
import { ExecStream } from './docker-stream.ts';
import {
  type BoxEvent,
  type BoxRef,
  type BoxSpec,
  type Engine,
  EngineError,
  type EngineFacts,
  type ResolvedImage,
} from './types.ts';

/** Of a session. */
interface Volume {
  readonly name: string;
  readonly mountpoint: string;
  /** No program of the session has seen it yet. */
  readonly isNew: boolean;
}

export interface DockerSettings extends DockerAddress {
  /** A runtime of the engine's; default its own. */
  readonly runtime?: string;
}

const startMs = 120_000;
/** How long the removal of a box is waited for whose launch was given up. */
const givenUpMs = 2_000;
/** How often a box that its engine is removing is asked after, and the pause between two of these looks. */
const removalTries = 100;
const removalPauseMs = 100;
const referencePattern = /^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,511}$/;

const labelFilter = (...labels: readonly string[]): string => encodeURIComponent(JSON.stringify({ label: labels }));

/** Docker says 409, Podman 500 with these words. */
const isTaken = (answer: DockerAnswer): boolean =>
  answer.status === 409 || (answer.status === 500 && /already in use|name .* is in use/i.test(messageOf(answer)));

const saysPodman = (version: unknown): boolean => /podman/i.test(JSON.stringify(field(version, 'Components') ?? ''));

export class DockerEngine implements Engine {
  readonly name = 'docker';
  readonly #client: DockerClient;
  readonly #runtime: string | undefined;
  #isPodman: boolean | undefined;

  constructor(settings: DockerSettings) {
    this.#client = new DockerClient(settings);
    this.#runtime = settings.runtime;
  }

  async probe(): Promise<EngineFacts> {
    const { body: version } = await this.#client.expect('/version', [200], { timeoutMs: 10_000 });
    const { body: info } = await this.#client.expect('/info', [200], { timeoutMs: 10_000 });
    const runtimes = Object.keys((field(info, 'Runtimes') ?? {}) as object).toSorted();
    const runtime = this.#runtime ?? (textField(info, 'DefaultRuntime') || null);
    const isPodman = saysPodman(version);
    this.#isPodman = isPodman;
    // Podman takes what it finds beside those that it lists, and says so when a box is made.
    if (this.#runtime !== undefined && !isPodman && !runtimes.includes(this.#runtime)) {
      const known = runtimes.join(', ');
      throw new EngineError(
        'runtime-missing',
        `The engine at ${this.#client.where} has no runtime ${this.#runtime}: ${known}`,
      );
    }
    const lacks = (name: string, what: string): string | null =>
      field(info, name) === false ? `the engine's kernel cannot limit ${what}` : null;
    return {
      version: `${isPodman ? 'Podman' : 'Docker'} ${textField(version, 'Version')}`,
      runtimes,
      runtime,
      isolation: /runsc|gvisor/i.test(runtime ?? '')
        ? 'gvisor'
        : /kata|firecracker/i.test(runtime ?? '')
          ? 'vm'
          : 'container',
      limits: {
        memory: lacks('MemoryLimit', 'memory'),
        cpu: lacks('CpuCfsQuota', 'processors'),
        pids: lacks('PidsLimit', 'processes'),
      },
      fence: null,
      commit: null,
      warm: false,
    };
  }

  async resolve(image: string, signal?: AbortSignal): Promise<ResolvedImage> {
    // In the address as it is: Podman decodes nothing there.
    if (!referencePattern.test(image)) throw new EngineError('image-missing', `${image} cannot name an image`);
    const path = `/images/${image}/json`;
    let found = await this.#client.call(path, { signal });
    // Docker says 400, Podman 500.
    if (found.status !== 200 && /invalid reference/i.test(messageOf(found)))
      throw new EngineError('image-missing', `${image} cannot name an image: ${messageOf(found)}`);
    if (found.status === 404) {
      await pull(this.#client, image, signal);
      found = await this.#client.call(path, { signal });
    }
    if (found.status === 404) throw new EngineError('image-missing', `The engine has no image ${image}`);
    if (found.status !== 200) throw this.#client.refused('engine-unreachable', found);
    return resolved(found);
  }

  async create(box: BoxSpec): Promise<BoxRef> {
    const name = boxName(box.owner);
    const volume = box.purpose === 'session' ? await this.#volume(box) : null;
    const body = bodyOf(box, volume, this.#runtime);
    const options = { method: 'POST', body, signal: box.signal } as const;
    let made = await this.#client.call(`/containers/create?name=${name}`, options);
    if (isTaken(made)) {
      // By a call of this owner's, such as one whose answer was lost.
      const existing = await this.#inspect(name);
      if (existing !== null) {
        const ref = this.#ours(existing, box);
        if (ref.running) return ref;
        await this.destroy(ref);
      }
      made = await this.#client.call(`/containers/create?name=${name}`, options);
    }
    if (made.status !== 201) throw this.#refusedBox(made, box);
    const uid = textField(made.body, 'Id');
    return this.#started({ owner: box.owner, name, uid, running: false }, box, volume);
  }

  async attach(ref: BoxRef): Promise<Duplex> {
    // Without keys that end it: what goes over it are any bytes.
    const query = 'stream=true&stdin=true&stdout=true&stderr=true&detachKeys=';
    return new ExecStream(await this.#client.upgrade(`/containers/${ref.uid}/attach?${query}`));
  }

  async wire(ref: BoxRef, bridge: readonly string[]): Promise<Duplex> {
    const streams = { AttachStdin: true, AttachStdout: true, AttachStderr: true, Tty: false };
    const made = await this.#client.expect(`/containers/${ref.uid}/exec`, [201], {
      method: 'POST',
      body: { ...streams, Cmd: bridge },
    });
    const exec = textField(made.body, 'Id');
    return new ExecStream(await this.#client.upgrade(`/exec/${exec}/start`, { Detach: false, Tty: false }));
  }

  async commit(ref: BoxRef, tag: string): Promise<ResolvedImage> {
    const query = new URLSearchParams({ container: ref.uid, repo: tag, tag: 'latest', pause: 'true' });
    // Nothing of how the box was started stays in the image.
    const body = { Cmd: [], Entrypoint: [], Labels: { 'svc/installation': ref.owner.installation } };
    await this.#client.expect(`/commit?${query}`, [201], { method: 'POST', body, timeoutMs: 15 * startMs });
    const found = await this.committed(tag);
    if (found === null)
      throw new EngineError('engine-unreachable', `The engine has committed ${tag} and does not have it`);
    return found;
  }

  async committed(tag: string): Promise<ResolvedImage | null> {
    const found = await this.#client.expect(`/images/${tag}:latest/json`, [200, 404]);
    return found.status === 404 ? null : resolved(found);
  }

  async list(installation: string, session?: string): Promise<BoxRef[]> {
    const labels = [`svc/installation=${installation}`, ...(session === undefined ? [] : [`svc/session=${session}`])];
    const { body } = await this.#client.expect(`/containers/json?all=true&filters=${labelFilter(...labels)}`, [200]);
    return (body as unknown[]).flatMap((one) => {
      const owner = ownerOf(field(one, 'Labels'));
      if (owner === null || owner.installation !== installation) return [];
      const [name = ''] = (field(one, 'Names') ?? []) as string[];
      const running = textField(one, 'State') === 'running';
      return [{ owner, name: name.replace(/^\//, ''), uid: textField(one, 'Id'), running }];
    });
  }

  async *events(ref: BoxRef, signal: AbortSignal): AsyncGenerator<BoxEvent> {
    while (!signal.aborted) {
      let waited: DockerAnswer;
      try {
        waited = await this.#client.call(`/containers/${ref.uid}/wait`, { method: 'POST', signal, timeoutMs: 0 });
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof EngineError)) throw error;
        // The engine is away: boxes may go on without it.
        await new Promise((resolve) => setTimeout(resolve, 1_000).unref());
        continue;
      }
      if (signal.aborted) return;
      if (waited.status === 404) return yield { kind: 'evicted', reason: 'the box was removed from its engine' };
      const state = field(await this.#inspect(ref.uid), 'State');
      const status = field(waited.body, 'StatusCode');
      const code = typeof status === 'number' ? status : null;
      if (field(state, 'Running') === true) continue;
      const oom = field(state, 'OOMKilled') === true;
      return yield { kind: 'ended', code, oom, reason: `the box ended with exit code ${code ?? 'unknown'}` };
    }
  }

  async destroy(ref: BoxRef): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      // By its own id: a box that was made later under the same name is another one.
      const gone = await this.#client.call(`/containers/${ref.uid}?force=true&v=true`, { method: 'DELETE' });
      if ([200, 204, 404].includes(gone.status)) return;
      // It is being removed already, by another call.
      if (gone.status === 409 && /already in progress/i.test(messageOf(gone))) return this.#awaitGone(ref);
      // Podman kills it first, and gives up where it ends by itself at that moment: a moment later there is nothing to kill.
      const isEnding = gone.status === 500 && /container state improper/i.test(messageOf(gone));
      if (!isEnding || tries === removalTries) throw this.#client.refused('engine-unreachable', gone);
      await sleep(removalPauseMs);
    }
  }

  async hasVolume(installation: string, session: string): Promise<boolean> {
    return (await this.#volumeName(installation, session)) !== null;
  }

  async volumes(installation: string): Promise<readonly string[]> {
    const { body } = await this.#client.expect(
      `/volumes?filters=${labelFilter(`svc/installation=${installation}`)}`,
      [200],
    );
    const found = (field(body, 'Volumes') ?? []) as unknown[];
    return found.map((one) => textField(one, 'Labels', 'svc/session')).filter((session) => session !== '');
  }

  async removeVolume(installation: string, session: string): Promise<void> {
    const name = await this.#volumeName(installation, session);
    if (name === null) return;
    await this.#client.expect(`/volumes/${name}?force=true`, [204, 404], { method: 'DELETE' });
  }

  async close(): Promise<void> {
    await this.#client.close();
  }

  async #inspect(nameOrId: string): Promise<unknown> {
    const found = await this.#client.expect(`/containers/${nameOrId}/json`, [200, 404]);
    return found.status === 404 ? null : found.body;
  }

  #ours(inspected: unknown, { owner }: BoxSpec): BoxRef {
    const found = ownerOf(field(inspected, 'Config', 'Labels'));
    const name = boxName(owner);
    if (found === null || found.installation !== owner.installation || found.session !== owner.session) {
      throw new EngineError('engine-refused', `The name ${name} is another's on the engine at ${this.#client.where}`);
    }
    return { owner, name, uid: textField(inspected, 'Id'), running: field(inspected, 'State', 'Running') === true };
  }

  /** What the volume of a session is called; null where it has none. */
  async #volumeName(installation: string, session: string): Promise<string | null> {
    for (const name of volumeNames({ installation, session })) {
      const found = await this.#client.expect(`/volumes/${name}`, [200, 404]);
      // The other data directory may have removed its own already. Podman takes the beginning of a name for the name.
      if (found.status === 200 && textField(found.body, 'Labels', 'svc/installation') === installation)
        return textField(found.body, 'Name');
    }
    return null;
  }

  /** Its directory on the engine's machine; made where it is not there. */
  async #volume(box: BoxSpec): Promise<Volume> {
    this.#isPodman ??= saysPodman((await this.#client.expect('/version', [200])).body);
    const names = volumeNames(box.owner);
    // Another data directory may have run the session on this engine before, and its volume may be gone since.
    const first = (await this.#volumeName(box.owner.installation, box.owner.session)) ?? names[0];
    const volume = (await this.#volumeAt(first, box)) ?? (await this.#volumeAt(names[1], box));
    if (volume !== null) return volume;
    throw new EngineError(
      'engine-refused',
      `The volume ${names[1]} is another's on the engine at ${this.#client.where}`,
    );
  }

  /** Null where the name is another's. */
  async #volumeAt(name: string, { owner, signal }: BoxSpec): Promise<Volume | null> {
    const made = randomUUID();
    const body = {
      Name: name,
      Driver: 'local',
      Labels: { ...labelsOf(owner, true), 'svc/made': made },
      // It would give the root of the volume to the user of the box, who could then put links there.
      ...(this.#isPodman && { DriverOpts: { o: 'uid=0,gid=0' } }),
    };
    const { body: found } = await this.#client.expect('/volumes/create', [200, 201], { method: 'POST', body, signal });
    if (textField(found, 'Labels', 'svc/installation') !== owner.installation) return null;
    const isNew = textField(found, 'Labels', 'svc/made') === made;
    return { name, mountpoint: textField(found, 'Mountpoint'), isNew };
  }

  /** Gives the user its directories, and starts. A box that cannot be started is not left behind. */
  async #started(ref: BoxRef, box: BoxSpec, volume: Volume | null): Promise<BoxRef> {
    try {
      // Podman fills a volume from its image when the box starts, and only one that is empty.
      const isHere =
        volume?.isNew === true && !this.#isPodman && (await madeDirectly(volume.mountpoint, box.directories));
      if (volume !== null && !isHere) {
        const path = `/containers/${ref.uid}/archive?path=%2Fhome`;
        const options = { method: 'PUT', body: directoriesTar(box.directories), signal: box.signal } as const;
        await this.#client.expect(path, [200], options);
      }
      box.onStage?.('starting');
      const start = { method: 'POST', timeoutMs: startMs, signal: box.signal } as const;
      const started = await this.#client.call(`/containers/${ref.uid}/start`, start);
      if (![204, 304].includes(started.status)) throw this.#refusedBox(started, box);
      return { ...ref, running: true };
    } catch (error) {
      // What went wrong first is told; the reaper finds what is left. Who gave it up waits for no engine that says nothing.
      const removing = this.destroy(ref).catch(() => undefined);
      await (box.signal?.aborted === true ? within(removing, givenUpMs) : removing);
      throw error;
    }
  }

  async #awaitGone(ref: BoxRef): Promise<void> {
    for (let tries = 0; tries < removalTries && (await this.#inspect(ref.uid)) !== null; tries += 1) {
      await sleep(removalPauseMs);
    }
  }

  #refusedBox(answer: DockerAnswer, box: BoxSpec): EngineError {
    const text = messageOf(answer);
    if (this.#runtime !== undefined && /runtime/i.test(text) && text.includes(this.#runtime)) {
      return this.#client.refused('runtime-missing', answer);
    }
    if (/no such image|image not known/i.test(text)) return this.#client.refused('image-missing', answer);
    // The engine took it for a box that no image of this kind can be: trying again changes nothing.
    if (/executable file not found|no such file or directory.*\/bin\/sh|stat \/bin\/sh/i.test(text)) {
      return new EngineError('image-refused', `${box.image.reference} has no /bin/sh: ${text}`);
    }
    // It cannot be made here as it is asked for, such as with more processors than there are.
    if (answer.status === 400) return this.#client.refused('pod-rejected', answer);
    return this.#client.refused('engine-unreachable', answer);
  }
}

/** By id, which cannot be moved; the manifest's digest where the engine has it, since it is what registries know. */
function resolved({ body }: DockerAnswer): ResolvedImage {
  const id = textField(body, 'Id');
  const [named = ''] = (field(body, 'RepoDigests') ?? []) as string[];
  const manifest = /@(sha256:[0-9a-f]{64})$/.exec(named)?.[1];
  const reference = id.startsWith('sha256:') ? id : `sha256:${id}`;
  return { reference, digest: manifest ?? reference };
}
