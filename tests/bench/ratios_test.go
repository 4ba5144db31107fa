package bench

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cocache/cocache/lua"
	"github.com/cocache/cocache/tests/redistest"
	"github.com/redis/rueidis"
)

var (
	rounds = flag.Int("rounds", 0, "TestRatios: rounds per row; 0 skips the rows")
	slice  = flag.Duration("slice", 200*time.Millisecond, "TestRatios: time of one side in one round")
	only   = flag.String("only", "", "TestRatios: rows whose name has this in it")
	write  = flag.String("write", "", "TestRatios: file to write the figures to")
)

// TestRatios answers every row: in each round each side works for a slice of
// time, ours and theirs in turn, so that what else the machine does hits both.
// The figures come last.
func TestRatios(t *testing.T) {
	if *rounds < 1 {
		t.Skip("takes minutes; run with -rounds 7")
	}
	var table bytes.Buffer
	for _, r := range rows {
		if !strings.Contains(r.name, *only) {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			s := redistest.Start(t)
			r.report(&table, r.open(t, s), func(side side) sample { return r.measure(t, side, *slice) })
		})
	}
	if strings.Contains(stampedeName, *only) {
		t.Run(stampedeName, func(t *testing.T) { reportStampedes(t, &table) })
	}
	t.Log("\n" + table.String())
	if *write == "" {
		return
	}
	if err := os.WriteFile(*write, []byte(header()+table.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func header() string {
	return fmt.Sprintf(`# Results

%s; %d cores, shared with other work; %s, %s/%s; redis-server %s on the same cores. The command:

    %s

Each cell of time is min / median / max over %d rounds, allocations are of the whole process per operation. The ratio is the
median of the rounds' ratios, ours against theirs in the same round: of time per operation where less is better (cost), of
throughput where more is (speed). Rows without a target explain. What each row does is in [README.md](README.md).

`, time.Now().Format(time.DateOnly), runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH,
		redisVersion(), "go test -run TestRatios -timeout 20m "+arguments(), *rounds)
}

func arguments() string {
	var set []string
	flag.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "rounds", "slice", "write":
			set = append(set, "-"+f.Name+" "+f.Value.String())
		}
	})
	return strings.Join(set, " ")
}

// sample is one side's slice of one round.
type sample struct {
	time   float64 // ns per operation
	allocs float64 // per operation
}

// measure runs the side for about d, in operations that its row's workers
// share.
func (r row) measure(t testing.TB, s side, d time.Duration) sample {
	t.Helper()
	n, took := 1, time.Duration(0)
	for took < d/10 { // warm, and learn how many fit
		n *= 4
		took, _ = r.run(t, s, n)
	}
	runtime.GC()
	n = max(int(float64(n)*float64(d)/float64(took)), 1)
	took, allocs := r.run(t, s, n)
	done := float64(n * r.workers)
	return sample{float64(took.Nanoseconds()) / done, float64(allocs) / done}
}

// run does n operations in each worker and fails the test on a wrong one.
func (r row) run(t testing.TB, s side, n int) (took time.Duration, allocs uint64) {
	t.Helper()
	var before, after runtime.MemStats
	errs := make([]error, r.workers)
	var workers sync.WaitGroup
	runtime.ReadMemStats(&before)
	began := time.Now()
	for w := range r.workers {
		workers.Go(func() { errs[w] = s.loop(w, n) })
	}
	workers.Wait()
	took = time.Since(began)
	runtime.ReadMemStats(&after)
	for _, err := range errs {
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
	return took, after.Mallocs - before.Mallocs
}

// report measures all sides round by round and appends the row's table.
func (r row) report(w *bytes.Buffer, sides []side, measure func(side) sample) {
	samples := make([][]sample, len(sides))
	for range *rounds {
		for i, side := range sides {
			samples[i] = append(samples[i], measure(side))
		}
	}
	fmt.Fprintf(w, "## %s\n\n| side | time per operation | allocations | ratio | target | |\n|---|---|---|---|---|---|\n", r.name)
	for i, side := range sides {
		ratio, want, verdict := side.target.judge(samples[0], samples[i])
		if i == 0 {
			ratio, want, verdict = "", "", ""
		}
		fmt.Fprintf(w, "| %s | %s | %.1f | %s | %s | %s |\n", side.name, spread(samples[i]),
			median(samples[i], func(s sample) float64 { return s.allocs }), ratio, want, verdict)
	}
	fmt.Fprintln(w)
}

// judge compares ours with theirs, round by round.
func (want target) judge(ours, theirs []sample) (ratio, wanted, verdict string) {
	cost := make([]float64, len(ours))
	for i := range ours {
		cost[i] = ours[i].time / theirs[i].time
	}
	slices.Sort(cost)
	c := cost[len(cost)/2]
	pass := map[bool]string{true: "pass", false: "**miss**"}
	switch {
	case want == faster:
		return fmt.Sprintf("cost %.2f", c), "< 1", pass[c <= want.cost]
	case want.cost > 0:
		return fmt.Sprintf("cost %.2f", c), fmt.Sprintf("≤ %.2f", want.cost), pass[c <= want.cost]
	case want.speed > 0:
		return fmt.Sprintf("speed %.2f", 1/c), fmt.Sprintf("≥ %.2f", want.speed), pass[1/c >= want.speed]
	default:
		return fmt.Sprintf("cost %.2f", c), "", ""
	}
}

func median(samples []sample, of func(sample) float64) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func spread(samples []sample) string {
	times := make([]float64, len(samples))
	for i, s := range samples {
		times[i] = s.time
	}
	slices.Sort(times)
	return fmt.Sprintf("%s / %s / %s", duration(times[0]), duration(times[len(times)/2]), duration(times[len(times)-1]))
}

func duration(ns float64) string {
	switch {
	case ns < 1e3:
		return fmt.Sprintf("%.1f ns", ns)
	case ns < 1e6:
		return fmt.Sprintf("%.2f µs", ns/1e3)
	default:
		return fmt.Sprintf("%.2f ms", ns/1e6)
	}
}

// readScript makes the server know the script that reads entries.
func readScript(t testing.TB, c rueidis.Client) (sha string) {
	t.Helper()
	sha, err := c.Do(background, c.B().ScriptLoad().Script(lua.Read).Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	return sha
}

// BenchmarkRows runs the rows' sides one at a time, for profiles and for -cpu;
// compare sides with TestRatios instead.
func BenchmarkRows(b *testing.B) {
	for _, r := range rows {
		b.Run(strings.ReplaceAll(r.name, ",", ""), func(b *testing.B) {
			for _, s := range r.open(b, redistest.Start(b)) {
				b.Run(s.name, func(b *testing.B) {
					r := r
					if r.workers == 2 { // of a row that scales: as many as -cpu says
						r.workers = runtime.GOMAXPROCS(0)
					}
					b.ReportAllocs()
					r.run(b, s, (b.N+r.workers-1)/r.workers)
				})
			}
		})
	}
}
