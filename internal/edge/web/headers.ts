// The headers of every page and asset. Script comes from this service alone, and inline there is the import map, whose
// hash the policy names; nothing frames a page, and no text becomes markup.

import type { Assets } from './assets.ts';

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

export function securityHeaders(assets: Assets, base: URL): { readonly [name: string]: string } {
  return {
    'content-security-policy': [
      "default-src 'none'",
      `script-src 'self' '${assets.importMapHash}'`,
      "style-src 'self'",
      "img-src 'self' data:",
      "connect-src 'self'",
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
