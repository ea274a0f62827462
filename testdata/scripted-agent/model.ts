// The scripted agent's one call to a model: a small streamed request to the address that its environment names, in the
// form of the harness that the environment was made for. So that metering, caps and failures of a gateway can be seen.

export interface ModelSettings {
  readonly wire: 'messages' | 'responses';
  readonly url: string;
  readonly key: string;
  readonly model: string;
  readonly effort: string | undefined;
  readonly system: string | undefined;
}

export interface ModelAnswer {
  readonly status: number;
  readonly text: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** The body of an answer that was refused. */
  readonly error?: string;
}

type Fields = { readonly [key: string]: unknown };
const fields = (value: unknown): Fields => (typeof value === 'object' && value !== null ? (value as Fields) : {});

/** From the environment and what the client put beside `session/new`. Undefined where no model is configured. */
export function modelSettings(env: NodeJS.ProcessEnv, sessionMeta: unknown): ModelSettings | undefined {
  const given = fields(fields(fields(sessionMeta)['claudeCode'])['options']);
  const base = env['ANTHROPIC_BASE_URL'];
  if (base !== undefined) {
    const append = fields(fields(sessionMeta)['systemPrompt'])['append'];
    return {
      wire: 'messages',
      url: `${base}/v1/messages`,
      key: env['ANTHROPIC_API_KEY'] ?? '',
      model: String(given['model'] ?? 'scripted'),
      effort: given['effort'] === undefined ? undefined : String(given['effort']),
      system: append === undefined ? undefined : String(append),
    };
  }
  if (env['CODEX_CONFIG'] === undefined) return undefined;
  const config = fields(JSON.parse(env['CODEX_CONFIG']));
  const provider = fields(fields(config['model_providers'])[String(config['model_provider'])]);
  return {
    wire: 'responses',
    url: `${String(provider['base_url'])}/responses`,
    key: env[String(provider['env_key'])] ?? '',
    model: String(config['model']),
    effort: config['model_reasoning_effort'] === undefined ? undefined : String(config['model_reasoning_effort']),
    system: config['developer_instructions'] === undefined ? undefined : String(config['developer_instructions']),
  };
}

function requestOf(settings: ModelSettings, text: string): { headers: Record<string, string>; body: unknown } {
  const { wire, key, model, effort, system } = settings;
  if (wire === 'messages') {
    return {
      headers: { 'x-api-key': key, 'anthropic-version': '2023-06-01' },
      body: {
        model,
        max_tokens: 64,
        stream: true,
        ...(system !== undefined && { system }),
        ...(effort !== undefined && { output_config: { effort } }),
        messages: [{ role: 'user', content: text }],
      },
    };
  }
  return {
    headers: { authorization: `Bearer ${key}` },
    body: {
      model,
      stream: true,
      ...(system !== undefined && { instructions: system }),
      ...(effort !== undefined && { reasoning: { effort } }),
      input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text }] }],
    },
  };
}

/** Reads both wires' events: text deltas, and usage wherever it stands. */
function read(event: Fields, into: { text: string; inputTokens: number; outputTokens: number }): void {
  const delta = event['delta'];
  if (event['type'] === 'content_block_delta') into.text += String(fields(delta)['text'] ?? '');
  if (event['type'] === 'response.output_text.delta') into.text += String(delta ?? '');
  for (const holder of [event, fields(event['message']), fields(event['response'])]) {
    const usage = fields(holder['usage']);
    if (typeof usage['input_tokens'] === 'number') into.inputTokens = usage['input_tokens'];
    if (typeof usage['output_tokens'] === 'number') into.outputTokens = usage['output_tokens'];
  }
}

/** One streamed call. Throws only where nothing answers, or when the signal aborts. */
export async function callModel(
  settings: ModelSettings,
  text: string,
  signal: AbortSignal,
  onText: (chunk: string) => Promise<void>,
): Promise<ModelAnswer> {
  const { headers, body } = requestOf(settings, text);
  const response = await fetch(settings.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'text/event-stream', ...headers },
    body: JSON.stringify(body),
    signal,
  });
  const seen = { text: '', inputTokens: 0, outputTokens: 0 };
  if (!response.ok || response.body === null) {
    return { status: response.status, ...seen, error: (await response.text()).slice(0, 500) };
  }
  let rest = '';
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (!line.startsWith('data:') || line.includes('[DONE]')) continue;
      const before = seen.text.length;
      read(fields(JSON.parse(line.slice(5))), seen);
      if (seen.text.length > before) await onText(seen.text.slice(before));
    }
  }
  return { status: response.status, ...seen };
}
