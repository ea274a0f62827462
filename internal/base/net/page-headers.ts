// The headers of every page, whichever edge makes it: nothing but what it names is loaded, nothing frames it, no text becomes
// markup, and it may use nothing of the machine.

const denied = [
  ...[
    'accelerometer',
    'autoplay',
    'camera',
    'display-capture',
    'fullscreen',
    'geolocation',
    'gyroscope',
    'magnetometer',
  ],
  ...['microphone', 'midi', 'payment', 'screen-wake-lock', 'usb', 'xr-spatial-tracking'],
];

/** Of a page below `base`; `sources` are the directives of its policy that let something in. */
export function pageHeaders(base: URL, sources: readonly string[]): { readonly [name: string]: string } {
  return {
    'content-security-policy': [
      "default-src 'none'",
      ...sources,
      "form-action 'self'",
      "base-uri 'none'",
      "frame-ancestors 'none'",
      "require-trusted-types-for 'script'",
      "trusted-types 'none'",
    ].join('; '),
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'permissions-policy': denied.map((name) => `${name}=()`).join(', '),
    'cache-control': 'no-store',
    ...(base.protocol === 'https:' && { 'strict-transport-security': 'max-age=31536000' }),
  };
}
