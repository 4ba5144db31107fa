// Package script tests the binary cocache-run from outside, as its users meet
// it: one script per file in testdata, which runs real processes, a real Redis
// and an HTTP origin that does as the script tells it. A case is added by adding
// a file; -run TestScript/NAME runs one. The commands beyond testscript's own:
//
//	run [-within D] [-stdin FILE] CODE ARG…   runs cocache-run; stdout and stderr are checked as after exec
//	serve [-at ADDR] [-live] [-within D] NAME FILE
//	                                          starts cocache-run, waits until ready (or only alive); $NAME is its
//	                                          address, which FILE takes from ${LISTEN}
//	signal NAME TERM|KILL|STOP|CONT           an instance or a redis            exit NAME CODE [WITHIN]
//	[!] log NAME PATTERN · lines NAME PATTERN AT-MOST · calm NAME               (no more goroutines than at its start)
//	port NAME · occupy NAME · [!] listens ADDR                                  free and taken addresses
//	http STATUS METHOD ADDR/PATH [-h LINE] [-d BODY]   sends the path as it stands; follows nothing
//	begin NAME COUNT METHOD ADDR/PATH …       COUNT such requests in the background; {i} is the number of each
//	repeat NAME EVERY METHOD ADDR/PATH …      such requests at a steady rate until the end
//	end NAME STATUS[|STATUS…]                 waits for all of them; the checks below then concern each
//	[!] header NAME PATTERN · body TEXT ({i} as above) · code WORD (of a problem document) · slow DURATION AT-MOST
//	until LIMIT STATUS METHOD ADDR/PATH BODY … asks again and again; logs how long it took
//	told ADDR NAMESPACE N                     waits for that many invalidations from others
//	metric ADDR PATTERN                       waits for a line of /metrics
//	redis [-cluster] [-at ADDR] NAME [ARG…]   a server; its port alone is in $NAME_PORT
//	redis-do NAME WORD…                       a command; the raw reply is on stdout
//	l1 NAME NAMESPACE KEY none|lease|absent|value|stale [TEXT]   what Redis itself holds
//	relay NAME [ADDR]                         an address that nobody answers; with ADDR, it leads there
//	relay NAME to ADDR                        leads new connections there, and leaves those that are
//	relay NAME off                            cuts what passed and refuses
//	relay NAME numb|dead|mute|hold PART       closes nothing, and loses both directions of the connections there are
//	                                          of the commands, the feed or all; of new ones too; the answers alone;
//	                                          or keeps what is sent
//	relay NAME mend                           ends all of that but numb
//	origin NAME [set BODY | status N|reset [KEY] | hold | pass | release [N] | calls N[..N] | wait N]
//	series NAME ADDR · unhex FROM TO · wait-for DURATION
//
// In a KEY and in what -d, body, redis-do and l1 take, \x00 and \n are written so.
package script

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/cocache/cocache/host" // which the binary is made of: a change of it is one of these tests
	"github.com/rogpeppe/go-internal/testscript"
)

// Where TestMain put what it built.
var binaries, sources string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	var err error
	if sources, err = filepath.Abs("../.."); err != nil {
		log.Fatal(err)
	}
	if binaries, err = os.MkdirTemp("", "cocache-script-"); err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(binaries)
	for name, pkg := range map[string]string{
		"cocache-run":       "./cmd/cocache-run",
		"quickstart-origin": "./examples/quickstart/origin",
	} {
		args := append([]string{"build", "-o", filepath.Join(binaries, name)}, raceFlags...)
		build := exec.Command("go", append(args, pkg)...)
		build.Dir = sources
		if out, err := build.CombinedOutput(); err != nil {
			log.Printf("go build %s: %v\n%s", pkg, err, out)
			return 1
		}
	}
	return m.Run()
}

func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                "testdata",
		RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", binaries+string(os.PathListSeparator)+e.Getenv("PATH"))
			e.Setenv("EXAMPLES", filepath.Join(sources, "examples"))
			e.Setenv("NS", "/v1/namespaces")
			e.Values[stateKey{}] = &state{
				t: e.T().(testing.TB), processes: map[string]*process{}, asked: map[string]*asked{},
				redis: map[string]*redisServer{}, origins: map[string]*origin{},
			}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"run": run, "serve": serve, "signal": signalTo, "exit": exitOf, "log": logOf, "lines": lines,
			"port": port, "occupy": occupy, "listens": listens,
			"http": httpOnce, "begin": begin, "repeat": repeat, "end": end, "until": until,
			"header": header, "body": body, "code": code, "slow": slow,
			"series": series, "told": told, "metric": metric, "calm": calm,
			"redis": startRedis, "redis-do": redisDo, "l1": l1Holds, "relay": relay,
			"origin": originCommand, "unhex": unhex, "wait-for": waitFor,
		},
	})
}

// state is what one script has running. Its commands run one at a time.
type state struct {
	t         testing.TB
	processes map[string]*process
	asked     map[string]*asked // begun requests
	answers   []answer          // of the last request
	redis     map[string]*redisServer
	origins   map[string]*origin
}

type stateKey struct{}

func stateOf(ts *testscript.TestScript) *state { return ts.Value(stateKey{}).(*state) }

// options takes leading words that begin with a dash off args; those in valued
// have a value behind them.
func options(ts *testscript.TestScript, args []string, valued ...string) (map[string]string, []string) {
	found := map[string]string{}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && len(args[0]) > 1 {
		name, value := args[0], ""
		args = args[1:]
		for _, v := range valued {
			if v == name {
				want(ts, len(args) > 0, "%s needs a value", name)
				value, args = args[0], args[1:]
			}
		}
		found[name] = value
	}
	return found, args
}

func want(ts *testscript.TestScript, ok bool, format string, args ...any) {
	if !ok {
		ts.Fatalf(format, args...)
	}
}

func number(ts *testscript.TestScript, text string) int {
	n, err := strconv.Atoi(text)
	ts.Check(err)
	return n
}

func duration(ts *testscript.TestScript, text string) time.Duration {
	d, err := time.ParseDuration(text)
	ts.Check(err)
	return d
}

func pattern(ts *testscript.TestScript, text string) *regexp.Regexp {
	re, err := regexp.Compile("(?m)" + text)
	ts.Check(err)
	return re
}

// unescape reads \x00, \n and the like.
func unescape(ts *testscript.TestScript, text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	plain, err := strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`)
	ts.Check(err)
	return plain
}

// unhex makes a file of bytes from one of hex digits, blanks and # comments.
func unhex(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) == 2, "usage: unhex FROM TO")
	digits := regexp.MustCompile(`#.*|\s`).ReplaceAllString(ts.ReadFile(args[0]), "")
	bytes, err := hex.DecodeString(digits)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), bytes, 0o644))
}

// waitFor lets time pass that is part of the case, such as a ttl.
func waitFor(ts *testscript.TestScript, _ bool, args []string) {
	want(ts, len(args) == 1, "usage: wait-for DURATION")
	time.Sleep(duration(ts, args[0]))
}

// eventually asks until ok says yes; what it last said otherwise is the fault.
func eventually(limit time.Duration, ok func() error) (time.Duration, error) {
	began := time.Now()
	for {
		err := ok()
		took := time.Since(began)
		if err == nil {
			return took, nil
		}
		if took > limit || errors.Is(err, errExited) {
			return took, fmt.Errorf("not within %s: %w", limit, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
