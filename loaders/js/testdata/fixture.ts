// The guest of the engines' common suite; its keys are described there.
export const keys = "bytes"

type Answer = unknown

const text = (b: Uint8Array): string => new TextDecoder().decode(b)

function pattern(n: number): Uint8Array {
  const out = new Uint8Array(n)
  const block = Uint8Array.from({ length: 251 }, (_, i) => i)
  for (let at = 0; at < n; at += 251) out.set(at + 251 <= n ? block : block.subarray(0, n - at), at)
  return out
}

async function answer(key: Uint8Array, ctx: any): Promise<Answer> {
  const slash = key.indexOf(0x2f)
  const name = text(slash < 0 ? key : key.subarray(0, slash))
  const rest = slash < 0 ? new Uint8Array(0) : key.subarray(slash + 1)
  switch (name) {
    case "echo": return rest
    case "empty": return ""
    case "absent": return null
    case "absent-ttl": return ctx.absent({ ttl: "7s" })
    case "retry": return ctx.retry("try later", { after: "3s" })
    case "error": throw Object.assign(new Error("no such luck"), { code: "E_LUCK" })
    case "ttl": return ctx.value("x", { ttl: "5m" })
    case "ttl-forever": return ctx.value("x", { ttl: "forever" })
    case "ttl-zero": return ctx.value("x", { ttl: "0s" })
    case "version": return ctx.value("x", { version: 18446744073709551615n })
    case "no-store": return ctx.value("x", { noStore: true })
    case "size": return pattern(Number(text(rest)))
    case "spin": for (;;) {}
    case "crash": return (undefined as any).crash
    case "setting": return ctx.settings[text(rest)] ?? null
    case "background": return String(ctx.background)
    case "previous": return String(ctx.previousVersion ?? 0)
    case "sleep": await ctx.sleep(Number(text(rest))); return "slept"
    case "log": ctx.log.info(text(rest)); return "ok"
    case "nonsense": return undefined
    case "fetch": return (await ctx.fetch(text(rest))).bytes()
  }
  throw new Error("no such key")
}

export default {
  load: answer,
  async loadAll(keys: Uint8Array[], ctx: any) {
    const out = new Map<Uint8Array, Answer>()
    for (const key of keys) {
      const name = text(key)
      if (name === "crash") throw new Error("crash")
      if (name === "leave-out") continue
      out.set(key, answer(key, ctx))
    }
    return out
  },
}
