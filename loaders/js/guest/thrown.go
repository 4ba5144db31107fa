package guest

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/dop251/goja"

	"github.com/cocache/cocache/loaders/capability"
	"github.com/cocache/cocache/loaders/js/encode"
	"github.com/cocache/cocache/loaders/js/web"
	"github.com/cocache/cocache/runtime/loader"
)

var (
	notCode  = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)
	position = regexp.MustCompile(`\bat ([^\n]*?[^\s(]+:\d+:\d+)\(\d+\)`)
)

const maxCode = 64

// failure is the error to hand out for one of the engine's. It tells them
// apart by type and not with errors.As, because unwrapping an exception runs
// script code.
func (r *run) failure(err error) error {
	switch e := err.(type) {
	case *goja.Exception:
		return r.thrown(e.Value())
	case *goja.InterruptedError:
		if ended := r.ctx.Err(); ended != nil {
			return ended
		}
		return context.Canceled
	case *goja.StackOverflowError:
		return loader.Failf("stack overflow: calls nested deeper than %d", maxCalls)
	case *loader.Error:
		return e
	case *encode.Error:
		return loader.Failf("%s", e.Error())
	}
	switch {
	case errors.Is(err, encode.ErrTooLarge):
		return &loader.Error{
			Kind: loader.Limited, Limit: "loader.limits.max-output-bytes", Value: capability.SizeText(r.call.MaxOutput),
			Message: "the value is larger",
		}
	case r.ctx.Err() != nil && errors.Is(err, r.ctx.Err()):
		return err
	}
	return loader.Failf("%s", err.Error())
}

// thrown is the error for a value that a script threw. Reading the value runs
// script code, so it is done inside the engine and its limits.
func (r *run) thrown(v goja.Value) error {
	if o, ok := v.(*goja.Object); ok {
		if err := r.hostErrors[o]; err != nil {
			return r.failure(err)
		}
		if a, ok := r.answers[o]; ok {
			if a.Err != nil {
				return a.Err
			}
			return loader.Failf("a result was thrown; return it")
		}
	}
	e := loader.Failf("")
	err := r.try(func() error {
		e.Message = loader.Clean(r.message(v))
		return nil
	})
	if err == nil {
		err = r.try(func() error {
			e.Code = codeOf(v)
			return nil
		})
	}
	switch err.(type) {
	case *goja.InterruptedError:
		return r.failure(err)
	case *goja.Exception, *goja.StackOverflowError:
		if e.Message == "" {
			e.Message = "threw " + encode.Describe(v) + " whose text cannot be read"
		}
	}
	return e
}

// message is one line about a thrown value.
func (r *run) message(v goja.Value) string {
	o, ok := v.(*goja.Object)
	switch {
	case !ok && v != nil && goja.IsString(v):
		if s := v.String(); s != "" {
			return s
		}
		return "threw an empty string"
	case !ok && (v == nil || goja.IsUndefined(v) || goja.IsNull(v)):
		return "threw " + encode.Describe(v)
	case !ok:
		return "threw " + encode.Describe(v) + ": " + v.String()
	case o.ClassName() == "Error":
		return errorText(o)
	}
	if s := textMember(o, "message"); s != "" {
		return s
	}
	if _, callable := goja.AssertFunction(o); callable {
		return "threw a function"
	}
	if s := o.String(); s != "" && !strings.HasPrefix(s, "[object ") {
		return s
	}
	if names := o.Keys(); len(names) > 0 {
		return "threw an object with " + strings.Join(names[:min(len(names), 10)], ", ")
	}
	return "threw an object"
}

// errorText is an Error's name, message and the place where it was made.
func errorText(o *goja.Object) string {
	name, message := textMember(o, "name"), textMember(o, "message")
	text := message
	switch {
	case message == "":
		text = name
	case name != "" && name != "Error":
		text = name + ": " + message
	}
	if text == "" {
		text = "threw an Error without a message"
	}
	// A long message would push the place out of the line.
	if at := place(textMember(o, "stack")); at != "" && len(text) < loader.MaxMessage/2 {
		text += " (at " + at + ")"
	}
	return text
}

// place is the first one of the script's own in a stack.
func place(stack string) string {
	for _, m := range position.FindAllStringSubmatch(stack, 16) {
		if !strings.Contains(m[1], web.Source+":") {
			return strings.ReplaceAll(m[1], " (", " ")
		}
	}
	return ""
}

// textMember is a member that is a string, else empty.
func textMember(o *goja.Object, name string) string {
	if v := o.Get(name); v != nil && goja.IsString(v) {
		return v.String()
	}
	return ""
}

// codeOf is the word that a thrown object gives as its code.
func codeOf(v goja.Value) string {
	o, ok := v.(*goja.Object)
	if !ok {
		return ""
	}
	code := notCode.ReplaceAllString(textMember(o, "code"), "")
	return code[:min(len(code), maxCode)]
}
