package conformance

// L1: leases, states, transitions (A).
var leases = []claim{
	{"A9 A33 K32 K39", "a load that began before an invalidation never reaches L1; its own caller still gets the value", func(w *world) {
		a, b := w.instance(), w.instance()
		w.source.set("k", "v1")
		load := w.hold("k")
		slow := a.begin("k")
		load.wait()
		w.source.set("k", "v2")
		b.drop("k")
		load.release()
		slow.want("v1")
		w.wantHeld("k", "")
		b.want("k", "v2")
		a.want("k", "v2")
		w.wantHeld("k", "Vv2")
	}, everywhere},

	{"A10", "a load that began after the invalidation is kept", func(w *world) {
		a := w.instance()
		w.source.set("k", "v2")
		a.drop("k")
		a.want("k", "v2")
		w.wantHeld("k", "Vv2")
	}, everywhere},

	{"A2 A5 K40", "the read script itself takes the lease, and a fill ends it: two scripts for a miss", func(w *world) {
		a := w.instance()
		w.source.set("k", "v")
		a.sends("read fill", func() { a.want("k", "v") })
		w.wantHeld("k", "Vv")
	}, everywhere},
}
