export function load(key) { return key }
