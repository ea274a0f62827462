/** Whether a host, as a URL writes it, is this machine: `localhost`, 127.0.0.0/8 or `[::1]`. */
export const isLoopback = (host: string): boolean => /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/i.test(host);
