//! Templates that try to eat time, memory or the stack. Each has to end soon, whatever it ends with.

use std::time::{Duration, Instant};

use ondol_rust::prompt::{self, Controls};
use ondol_rust::template::Template;
use ondol_rust::FailureKind;

/// Runs a template; returns the kind of failure, if it failed.
fn run(source: &str) -> Option<FailureKind> {
    let start = Instant::now();
    let result = Template::compile(source.as_bytes()).and_then(|template| {
        let request =
            br#"{"messages": [{"role": "user", "content": "hi"}], "tools": [1, {"a": [2]}]}"#;
        prompt::render(&template, request, None, &Controls::new(["<|x|>"]))
    });
    let took = start.elapsed();
    let head: String = source.chars().take(120).collect();
    assert!(took < Duration::from_secs(5), "{took:?}: {head}");
    let kind = result.err().map(|e| e.kind);
    assert_ne!(kind, Some(FailureKind::Internal), "{head}");
    println!("{took:>12?} {kind:?} {head}");
    kind
}

#[test]
fn bombs_are_stopped() {
    let bombs = [
        "{{ 'a' * 10**9 }}",
        "{{ 'a'.center(10**9) }}",
        "{{ 'a'.ljust(10**9) }}",
        "{{ 'a'.zfill(10**9) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%*d' % (1000000000, 1) }}",
        "{{ '{:>1000000000}'.format(1) }}",
        "{{ '{:>{w}}'.format(1, w=1000000000) }}",
        "{{ ('{0}' * 100000).format('x' * 100000) }}",
        "{{ ('%(a)s' * 100000) | format(a='x' * 100000) }}",
        "{{ ('x' * 1000000).replace('x', 'y' * 10000) }}",
        "{{ ('x' * 1000000) | replace('x', 'y' * 10000) }}",
        "{{ ('x' * 1000000) | replace('', 'y' * 10000) }}",
        "{{ ('x' * 10000).join('x' * 100000) }}",
        "{{ ('x' * 100000) | join('y' * 100000) }}",
        "{{ (('x\\n') * 100000) | indent(100000) | length }}",
        "{{ ([1] * 100000) | tojson(indent=100000) }}",
        "{{ ([[1] * 1000] * 100000) | string | length }}",
        "{{ ([[1] * 1000] * 100000) | tojson | length }}",
        "{% set ns = namespace(a=[1]) %}{% for i in range(60) %}{% set ns.a = ns.a + ns.a %}{% endfor %}{{ ns.a | length }}",
        "{% set ns = namespace(a=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a }}",
        "{% set ns = namespace(a=[1]) %}{% for i in range(99999) %}{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a }}",
        "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns ~ '' }}",
        "{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = {'k': [b]} %}{{ a == b }}{{ a }}",
        "{% set a = namespace() %}{% set a.b = {'k': a}.values() %}{{ a }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{{ i }}{% endfor %}{% endfor %}",
        "{% macro m(x) %}{{ m([x]) }}{% endmacro %}{{ m(1) }}",
        "{% macro m() %}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}",
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% include 'chat template' %}",
        "{% import 'chat template' as x %}",
        "{% set x %}{% for i in range(99999) %}{% for j in range(99) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}{% endfor %}{% endset %}",
        "{{ range(100001) }}",
        "{{ range(0, 9223372036854775807, 1) }}",
        "{{ (9223372036854775807 ** 2) ** 2 ** 2 }}",
    ];
    for source in bombs {
        assert!(run(source).is_some(), "{source}");
    }
}

#[test]
fn heavy_but_bounded() {
    for source in [
        "{% set ns = namespace(a=[]) %}{% for i in range(3000) %}{% set ns.a = ns.a + [i] %}{% endfor %}{{ ns.a | length }}",
        "{% for i in range(2000) %}{{ messages * 1000 }}{% endfor %}",
        "{{ (range(99999) | list) == (range(99999) | list) }}",
        "{{ (range(99999) | list | sort(reverse=true) | unique | list | length) }}",
        "{{ range(99999) | map('string') | join(',') | length }}",
        "{% for i in range(1000) %}{{ range(99999) | sum }}{% endfor %}",
        "{% for i in range(9999) %}{{ range(99999) | list | length }}{% endfor %}",
        "{% for i in range(9999) %}{{ ('x' * 1000000) | wordcount }}{% endfor %}",
        "{% for i in range(9999) %}{{ ('x' * 1000000) in ('y' * 1000000) }}{% endfor %}",
        "{% for i in range(9999) %}{{ ('x ' * 1000000).split() | length }}{% endfor %}",
        "{% for i in range(9999) %}{{ ('x' * 1000000).count('x') }}{% endfor %}",
        "{% for i in range(9999) %}{{ ('x' * 1000000) | striptags | length }}{% endfor %}",
        "{{ ('<' * 1000000) | striptags | length }}",
        "{{ ('<' * 10000000).find('<' * 100000 ~ 'x') }}",
        "{% for i in range(9999) %}{% set x = ('x' * 1000000)[::-1] %}{% endfor %}",
        "{{ ('%' * 1000000) % 1 }}",
        "{{ ('{' * 1000000).format(1) }}",
        "{{ [[[[[[[[1]]]]]]]] ~ '' }}",
        "{{ (range(1000)|list * 1000) | tojson | length }}",
        "{{ messages | tojson(indent=-5) }}{{ 1 | tojson(separators=1) }}",
        "{{ 'a'.center(-9223372036854775807) }}{{ 'a'[9223372036854775807:] }}{{ 'a'[::-9223372036854775807] }}",
        "{{ 'é'.find('', 5, -9223372036854775807) }}{{ 'é'.zfill(3) }}{{ '-'.zfill(3) }}",
        "{{ 5 // 0.0 }}{{ -9223372036854775808 // -1 }}{{ ondol_mod(-170141183460469231731687303715884105728, -1) }}",
        "{{ 'abc' | truncate(-1) }}{{ 'abc' | indent(-1) }}{{ '1' | int(0, 99) }}",
        "{{ ondol_store() }}",
        "{{ strftime_now('%' * 100000) }}",
        "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(16) %}{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}{% for i in range(9999) %}{% for i in range(9999) %}{% set x = ns.a == ns.b %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(14) %}{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}{% for i in range(9999) %}{% for i in range(9999) %}{% set x = ns.a in [ns.b, ns.b, ns.b] %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(14) %}{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}{% for i in range(9999) %}{% for i in range(9999) %}{% set x = ns.a is eq ns.b %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(14) %}{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}{% for i in range(9999) %}{% for i in range(9999) %}{% set x = [ns.a, ns.b, ns.a, ns.b] | sort | length %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(a=(1,)) %}{% for i in range(16) %}{% set ns.a = (ns.a, ns.a) %}{% endfor %}{% set d = {1: 1} %}{% for i in range(9999) %}{% for i in range(9999) %}{% set x = d[ns.a] %}{% endfor %}{% endfor %}",
        "{{ '' | first }}{{ [] | last }}{{ [] | max }}",
    ] {
        run(source);
    }
}

#[test]
fn odd_sources_are_refused_or_rendered() {
    for source in [
        "{{".to_owned(),
        "{%".to_owned(),
        "{#".to_owned(),
        "{% raw %}".to_owned(),
        "{% raw %}{% endraw".to_owned(),
        "{{ '".to_owned(),
        "{{ \\ }}".to_owned(),
        "{{ a.".to_owned(),
        "{{ a. }}".to_owned(),
        "{{ a.items".to_owned(),
        "{% set ns.a = %}".to_owned(),
        "{% set ns.a = 1 ~ %}".to_owned(),
        "{% for %}".to_owned(),
        "{% for x in %}{% endfor %}".to_owned(),
        "{% generation %}".to_owned(),
        "{{ a ~ }}{{ ~ a }}{{ % }}".to_owned(),
        "{{ ) ~ ( }}{{ 1 is }}{{ 1 is not }}".to_owned(),
        "{{ x if }}{{ x if y else }}".to_owned(),
        format!("{{{{ {}1 }}}}", "x if y else ".repeat(1_500)),
        format!("{{{{ 1{} }}}}", " if 1".repeat(1_500)),
        format!("{{{{ 1{} }}}}", "+1".repeat(1_900)),
        format!("{{{{ 'a'{} }}}}", "~'a'".repeat(1_900)),
        format!("{{{{ 9{} }}}}", "%9".repeat(1_900)),
        format!("{{{{ 2{} }}}}", "**1".repeat(1_900)),
        format!("{{{{ x{} }}}}", ".x".repeat(1_900)),
        format!("{{{{ x{} }}}}", ".items".repeat(1_900)),
        format!("{{{{ x{} }}}}", "()".repeat(1_900)),
        format!("{{{{ 1{} }}}}", "|string".repeat(1_900)),
        format!("{{{{ 1{} }}}}", " is not defined".repeat(600)),
        format!("{{{{ 1{} }}}}", " < 1".repeat(1_900)),
        format!("{{{{ {}1 }}}}", "1 and ".repeat(1_900)),
        format!("{{{{ {}1{} }}}}", "[".repeat(99), "]".repeat(99)),
        format!("{{{{ {}1{} }}}}", "[-(not ".repeat(49), ")]".repeat(49)),
        format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(450)),
        format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(5_000)),
        "{% if 1 %}".repeat(100_000),
        "{% for x in y %}".repeat(100_000),
        "{{ 1 }}".repeat(100_000),
        "{".repeat(1_000_000),
        "{%".repeat(500_000),
        "{#".repeat(500_000),
        "{% raw %}".repeat(100_000),
    ] {
        run(&source);
    }
}
