package httpapi

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// operation is one row of the API.
type operation struct {
	name   string   // in metrics
	params []string // what the query may hold
	// refused are the headers that ask for a condition which the operation
	// cannot judge: to ignore one is to write where the client said not to.
	refused []string
	run     func(*call) *problem
}

// routes is the API: what each method does to each resource.
func routes() map[resource]map[string]operation {
	list := operation{name: "list-namespaces", run: (*call).list}
	describe := operation{name: "describe-namespace", run: (*call).describe}
	onRead := []string{"If-Match"}
	onWrite := []string{"If-Match", "If-None-Match", "If-Unmodified-Since", "Cocache-Version"}
	return map[resource]map[string]operation{
		listing:   {http.MethodGet: list, http.MethodHead: list},
		namespace: {http.MethodGet: describe, http.MethodHead: describe},
		singleKey: {
			http.MethodGet:    {name: "get", refused: onRead, run: (*call).get},
			http.MethodHead:   {name: "head", refused: onRead, run: (*call).get},
			http.MethodPut:    {name: "put", refused: onWrite, params: []string{"ttl"}, run: (*call).put},
			http.MethodDelete: {name: "delete", refused: onWrite, run: (*call).delete},
		},
		batchGet:        {http.MethodPost: {name: "batch-get", run: (*call).batchGet}},
		batchPut:        {http.MethodPost: {name: "batch-put", refused: onWrite, run: (*call).batchPut}},
		batchInvalidate: {http.MethodPost: {name: "batch-invalidate", refused: onWrite, run: (*call).batchInvalidate}},
	}
}

// call is one request under way.
type call struct {
	*api
	w http.ResponseWriter
	r *http.Request
	target
	query  url.Values
	space  *Namespace // nil above the namespaces
	status int        // answered
}

// name is the operation's, for metrics.
func (c *call) name() string {
	if op, ok := c.routes[c.resource][c.r.Method]; ok {
		return op.name
	}
	return "other"
}

// serve answers, or says why not.
func (c *call) serve() *problem {
	if refused := c.parseQuery(); refused != nil {
		return refused
	}
	if c.draining() {
		return draining()
	}
	op, refused := c.route()
	if refused != nil {
		return refused
	}
	for name := range c.query {
		if !slices.Contains(op.params, name) {
			return invalidRequest("the query holds a parameter that this operation does not know")
		}
	}
	for _, name := range op.refused {
		if _, given := c.r.Header[name]; given {
			return &problem{status: http.StatusBadRequest, code: "precondition-unsupported",
				detail: name + " cannot be judged by a namespace of this type"}
		}
	}
	return op.run(c)
}

// parseQuery refuses a token in the URL wherever it stands: logs and histories
// keep URLs.
func (c *call) parseQuery() *problem {
	query, err := url.ParseQuery(c.r.URL.RawQuery)
	if query.Has("token") {
		return &problem{status: http.StatusBadRequest, code: "token-in-url",
			detail: "a token belongs in the Authorization header, and this one has been shown: replace it"}
	}
	if err != nil {
		return invalidRequest("the query cannot be read")
	}
	for _, values := range query {
		if len(values) > 1 {
			return invalidRequest("the query holds a parameter twice")
		}
	}
	c.query = query
	return nil
}

func (c *call) route() (operation, *problem) {
	methods, known := c.routes[c.resource]
	if !known {
		return operation{}, &problem{status: http.StatusNotFound, code: "not-found", detail: "no such route"}
	}
	op, allowed := methods[c.r.Method]
	if !allowed {
		return operation{}, &problem{status: http.StatusMethodNotAllowed, code: "method-not-allowed",
			detail: "the method is not one of this resource's",
			allow:  strings.Join(slices.Sorted(maps.Keys(methods)), ", ")}
	}
	if c.resource == listing {
		return op, nil
	}
	space, known := c.namespaces.Namespace(c.namespace)
	if !known {
		return operation{}, &problem{status: http.StatusNotFound, code: "namespace-not-found", detail: "no such namespace"}
	}
	c.space = space
	return op, nil
}
