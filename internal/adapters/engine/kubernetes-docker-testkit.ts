// Pods of the fake cluster as containers of a real dockerd, as a kubelet makes them: the test image as the pod's user, with a
// read-only root, no capability and no network but what a policy lets out. Only tests and the bench import this.

import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { joinPod, type Runner, type PodWays } from '../../../testdata/kubernetes/runner.ts';
import { type TestEngine, testImage } from './engine-testkit.ts';

const path = '/usr/local/bin:/usr/bin:/bin';
const namespaces = ['--mount', '--pid', '--net', '--ipc', '--uts'];

/** Needs nsenter beside the engine. */
export const dockerRunner =
  ({ api }: TestEngine, ways: PodWays): Runner =>
  async (pod) => {
    const call = async <T>(method: string, where: string, body?: object): Promise<T> => {
      const answer = await api(method, `/v1.41/containers/${where}`, body);
      if (answer.status >= 300) throw new Error(`${where}: ${answer.status} ${JSON.stringify(answer.body)}`);
      return answer.body as T;
    };
    const tmpfs = pod.mounts.map((mount) => [mount, 'rw,exec,uid=1000,gid=1000,mode=0777']);
    const { Id: id } = await call<{ Id: string }>('POST', `create?name=${pod.name}-${randomBytes(4).toString('hex')}`, {
      Image: testImage,
      Entrypoint: pod.argv,
      Hostname: pod.name.slice(0, 63),
      User: '1000:1000',
      Env: [`PATH=${path}`],
      HostConfig: {
        NetworkMode: 'none',
        ReadonlyRootfs: true,
        CapDrop: ['ALL'],
        SecurityOpt: ['no-new-privileges'],
        Tmpfs: Object.fromEntries(tmpfs),
      },
    });
    const folder = await mkdtemp(join(tmpdir(), 'svc-pod-'));
    await call('POST', `${id}/start`);
    const ended = call<{ StatusCode: number }>('POST', `${id}/wait`).then(({ StatusCode: code }) => ({ code }));
    ended.catch(() => undefined); // Whoever waits for it hears of it.
    const { State: state } = await call<{ State: { Pid: number } }>('GET', `${id}/json`);
    const endWays = pod.isLetOut === true ? await joinPod(state.Pid, folder, ways) : undefined;
    let removed: Promise<void> | undefined;
    const remove = async (): Promise<void> => {
      await call('DELETE', `${id}?force=true&v=true`);
      endWays?.();
      await rm(folder, { recursive: true, force: true });
    };
    return {
      ended,
      exec: (argv) =>
        spawn('nsenter', ['--target', String(state.Pid), ...namespaces, '-S', '1000', '-G', '1000', '--', ...argv], {
          stdio: ['pipe', 'pipe', 'pipe'],
          env: { PATH: path },
        }),
      kill: () => (removed ??= remove()),
    };
  };
