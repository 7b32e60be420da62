"""The grammar of Link headers (RFC 8288 section 3)."""

import pytest

from flask_notifications.check.links import Link, parse_links, read_links, select_links


@pytest.mark.parametrize(
    ("value", "links"),
    [
        ("</new>;rel=successor-version", [Link("/new", ("successor-version",))]),
        ('</d>; type="text/html"; REL = "Deprecation"', [Link("/d", ("deprecation",))]),
        ('</d>; rel="deprecation sunset"', [Link("/d", ("deprecation", "sunset"))]),
        ('</a>; rel="a" ,,\t</b>; rel="b",', [Link("/a", ("a",)), Link("/b", ("b",))]),
        ('</a>; title="x, </b>; \\"y\\""; rel=a; crossorigin;', [Link("/a", ("a",))]),
        ("<>; rel=self", [Link("", ("self",))]),
        (
            '<https://a.example/%C3%A9?b=c&d#e>; rel="a"',
            [Link("https://a.example/%C3%A9?b=c&d#e", ("a",))],
        ),
        ('</a>; rel="https://a.example/Rel"', [Link("/a", ("https://a.example/rel",))]),
        ('</a>; rel=a; anchor="/b"; anchor="/c"', [Link("/a", ("a",), "/b")]),
        ("</a>; title*=UTF-8''%e2%82%ac; rel=\"a\"", [Link("/a", ("a",))]),
    ],
)
def test_a_valid_header_is_read(value: str, links: list[Link]) -> None:
    assert parse_links(value) == links


@pytest.mark.parametrize(
    ("reason", "values"),
    [
        ("it contains no link", ["", " , "]),
        ("a link is like", ['/new; rel="a"', '</new; rel="a"']),
        (
            "needs one rel that is not empty$",
            ["</new>", "</new>; type=a", '</new>; rel="a"; rel="b"'],
        ),
        ("needs one rel that is not empty$", ['</new>; rel=""', "</new>; rel"]),
        (
            "a link is like",
            [
                '</new> rel="a"',
                '</new>; rel="a" x',
                '</new>; rel="a',
                '</a>; rel="a" </b>; rel="b"',
            ],
        ),
        (
            "not a URI reference",
            [
                f'<{uri}>; rel="a"'
                for uri in ("/a b", "/v2/{id}", "http://[x/", "/%zz", "/\u00e9")
            ],
        ),
        ("not a URI reference", ['<http://x:99999/>; rel="a"']),
    ],
)
def test_an_invalid_header_is_refused_with_a_reason(
    reason: str, values: list[str]
) -> None:
    for value in values:
        with pytest.raises(ValueError, match=reason):
            parse_links(value)


def test_an_invalid_header_does_not_hide_the_others() -> None:
    links, ((value, error),) = read_links(["</a>; rel=a", "b", "</c>; rel=c"])
    assert links == [Link("/a", ("a",)), Link("/c", ("c",))]
    assert (value, "a link is like" in str(error)) == ("b", True)


@pytest.mark.parametrize(
    ("anchor", "is_own"),
    [
        *(
            ("", True),
            ("/old?a=1", True),
            ("http://a.example/old?a=1", True),
            ("/other", False),
        ),
        *(("#part", False), ("http://[x", False)),
    ],
)
def test_a_link_of_another_resource_is_recognised(anchor: str, is_own: bool) -> None:
    links = parse_links(f'</b>; rel=a; anchor="{anchor}"')
    assert links == [Link("/b", ("a",), anchor)]
    assert select_links(links, "http://a.example/old?a=1") == links * is_own


def test_a_long_header_is_read_in_linear_time() -> None:
    value = "</a>" + "; x" * 50_000 + " "
    with pytest.raises(ValueError, match="needs one rel"):
        parse_links(value)
    with pytest.raises(ValueError, match="a link is like"):
        parse_links('</a>; rel="' + '\\"' * 50_000)
