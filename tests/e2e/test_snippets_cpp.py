"""C++ programs: what compiles, what does not and how that is said, and the fresh sandbox of the run stage."""

import pytest

import snippets
from snippets import REJECTED, cpp, killed

CASES = [
    # Rejected by the compiler: its exit code, its words, nothing run.
    cpp("syntax-error", "#include <iostream>\nint main() { std::cout << \"x\"\n}\n", err_has="error: expected", **REJECTED),
    cpp("unknown-name", "int main() { return nowhere; }\n", err_has=("nowhere", "snippet.cpp"), **REJECTED),
    cpp("wrong-type", "#include <string>\nint main() { std::string s = 5; return s; }\n", err_has="error:", **REJECTED),
    cpp("missing-header", "#include <no/such/header>\nint main() {}\n", err_has="no/such/header", **REJECTED),
    cpp("undefined-reference", "int missing();\nint main() { return missing(); }\n", err_has="undefined reference", **REJECTED),
    cpp("no-main", "int f() { return 1; }\n", err_has="main", **REJECTED),
    cpp("two-definitions", "int f() { return 1; }\nint f() { return 2; }\nint main() {}\n", err_has="redefinition", **REJECTED),
    cpp("error-directive", "#error \"stop here\"\nint main() {}\n", err_has="stop here", **REJECTED),
    cpp("static-assertion", "static_assert(sizeof(int) == 5, \"no\");\nint main() {}\n", err_has="static assertion", **REJECTED),
    cpp("endless-templates", "template <int N> struct F { static constexpr long v = F<N + 1>::v; };\nint main() { return F<0>::v; }\n",
        err_has="instantiation depth", **REJECTED),
    cpp("endless-includes", "#include \"snippet.cpp\"\nint main() {}\n", err_has="nested depth", **REJECTED),
    cpp("endless-constant-expression", "constexpr int f(int n) { return f(n + 1); }\nconstexpr int x = f(0);\nint main() {}\n",
        err_has="depth", **REJECTED),
    cpp("newer-than-the-standard", "#include <format>\nint main() { return std::format(\"{}\", 1).size(); }\n", err_has="error:", **REJECTED),
    cpp("thousands-of-errors", "int main() {\n" + "x;\n" * 8000 + "}\n", err_has="error:", **REJECTED),
    cpp("asm-that-does-not-assemble", "int main() { asm(\"no such thing\"); }\n", err_has="no such instruction", **REJECTED),

    # The source arrives byte for byte.
    cpp("windows-line-ends", "#include <cstdio>\r\n#define SUM(a, b) \\\r\n  ((a) + (b))\r\nint main() {\r\n  std::printf(\"%d %s\\n\", SUM(1, 2), R\"(x\r\ny)\");\r\n}\r\n",
        "3 x\ny\n"),
    cpp("byte-order-mark", "\ufeff#include <cstdio>\nint main() { std::puts(\"bom\"); }\n", "bom\n"),
    cpp("nul-in-a-comment", "#include <cstdio>\nint main() { std::puts(\"first\"); // \0 here\nstd::puts(\"second\"); }\n", "first\nsecond\n"),
    cpp("unicode", "#include <cstdio>\nint gr\u00f6\u00dfe = 7;\nint main() { std::printf(\"\u4f60\U0001f378 %d\\n\", gr\u00f6\u00dfe); }\n", "\u4f60\U0001f378 7\n"),
    cpp("no-newline-at-the-end", "int main() { return 0; }", ""),
    cpp("long-initialiser", "#include <cstdio>\nint a[] = {" + "1," * 20000 + "};\nint main() { std::printf(\"%zu\\n\", sizeof a / sizeof *a); }\n",
        "20000\n"),
    cpp("diagnostics-keep-their-characters", "int main() { return \u00fc\u4f60; }\n", err_has="\u00fc\u4f60", **REJECTED),

    # What the language and library offer.
    cpp("streams-and-containers", """
        #include <iostream>
        #include <map>
        #include <numeric>
        #include <vector>
        int main() {
                std::vector<int> v(10);
                std::iota(v.begin(), v.end(), 1);
                std::map<int, int> m{{2, 3}};
                std::cout << std::accumulate(v.begin(), v.end(), 0) << ' ' << m[2] << std::endl;
        }
        """, "55 3\n"),
    cpp("seventeen", """
        #include <filesystem>
        #include <iostream>
        #include <optional>
        #include <string_view>
        #include <tuple>
        int main() {
                auto [a, b] = std::tuple{1, std::string_view("two")};
                std::optional<int> none;
                if constexpr (__cplusplus == 201703L)
                        std::cout << a << b << none.value_or(9) << std::filesystem::current_path() << '\\n';
        }
        """, "1two9\"/tmp\"\n"),
    cpp("everything-header", "#include <bits/stdc++.h>\nusing namespace std;\nint main() { cout << __gcd(12, 18) << endl; }\n", "6\n"),
    cpp("optimised", "#include <cstdio>\nint main() {\n#ifdef __OPTIMIZE__\nstd::puts(\"yes\");\n#endif\n}\n", "yes\n"),
    cpp("threads", """
        #include <atomic>
        #include <iostream>
        #include <thread>
        #include <vector>
        int main() {
                std::atomic<int> n{0};
                std::vector<std::thread> all;
                for (int i = 0; i < 8; i++)
                        all.emplace_back([&] { for (int j = 0; j < 1000; j++) n++; });
                for (auto &t : all)
                        t.join();
                std::cout << n << '\\n';
        }
        """, "8000\n"),
    cpp("warning-is-no-error", "#include <cstdio>\nint main() { char *s = \"x\"; std::puts(s); }\n", "x\n", err=""),
    cpp("no-input", "#include <iostream>\nint main() { int n; std::cout << bool(std::cin >> n) << '\\n'; }\n", "0\n"),
    cpp("input-given", "#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b << '\\n'; }\n", "42\n", stdin="20 22"),
    cpp("arguments", "#include <cstdio>\nint main(int c, char **v) { for (int i = 1; i < c; i++) std::printf(\"[%s]\", v[i]); }\n", "[a][b c]",
        args=("a", "b c")),
    cpp("output-before-a-crash-is-the-program's-to-flush", "#include <cstdio>\n#include <cstdlib>\nint main() { std::puts(\"lost\"); std::fputs(\"kept\", stderr); std::abort(); }\n",
        "", err_has="kept", **killed(6)),
    cpp("own-child", "#include <cstdlib>\nint main() { return std::system(\"exit 5\") >> 8; }\n", "", status="error", exit_code=5),

    # The run stage is a sandbox of its own, with the binary read-only.
    cpp("stages-are-apart", """
        #include <cstdio>
        #include <filesystem>
        #include <fstream>
        int main() {
                bool scratch = bool(std::ofstream("/scratch/new"));
                bool over = bool(std::ofstream("/scratch/a.out"));
                bool tmp = bool(std::ofstream("/tmp/new"));
                int left = 0;
                for (auto &entry : std::filesystem::directory_iterator("/tmp"))
                        left += entry.path() != "/tmp/new";
                std::printf("%d %d %d %d\\n", scratch, over, tmp, left);
        }
        """, "0 0 1 0\n"),
    cpp("what-scratch-holds", """
        #include <cstdio>
        #include <filesystem>
        #include <set>
        int main() {
                std::set<std::string> names;
                for (auto &entry : std::filesystem::directory_iterator("/scratch"))
                        names.insert(entry.path().filename());
                for (auto &name : names)
                        std::printf("%s ", name.c_str());
        }
        """, "a.out snippet.cpp "),
    cpp("tmp-is-not-executable", """
        #include <cerrno>
        #include <cstdio>
        #include <cstdlib>
        #include <unistd.h>
        int main() {
                std::system("cp /scratch/a.out /tmp/copy && chmod 755 /tmp/copy");
                execl("/tmp/copy", "copy", nullptr);
                std::printf("%d\\n", errno == EACCES);
        }
        """, "1\n"),
]

LEAKS = [
    ("password-file", '#include "/etc/passwd"\nint main() {}\n'),
    ("shadow-file", '#include "/etc/shadow"\nint main() {}\n'),
    ("environment-of-pid-1", '#include "/proc/1/environ"\nint main() {}\n'),
    ("own-environment", '#include "/proc/self/environ"\nint main() {}\n'),
    ("assembler-include", 'asm(".incbin \\"/etc/passwd\\"");\nint main() {}\n'),
]


@pytest.mark.parametrize("case", snippets.rows(CASES))
def test_cpp(case, server, as_each):
    snippets.check(case, snippets.perform(case, server, as_each))


@pytest.mark.parametrize("name,code", LEAKS, ids=[name for name, _ in LEAKS])
def test_the_compiler_sees_the_image_and_no_more(name, code, server):
    """The compiler is given the user's text, so it runs in a sandbox too: what it quotes is the image's."""
    result = server.run_code("cpp", code)
    said = result["stdout"] + result["stderr"]
    assert result["status"] in ("compile_error", "success"), result
    assert "sr-test" not in said, "an account of the host shows"
    assert "suite-secret" not in said, "the server's environment shows"


def test_stages_are_reported(server):
    result = server.run_code("cpp", "int main() {}\n")
    assert [stage["name"] for stage in result["stages"]] == ["compile", "run"]
    assert all(stage["wall_ms"] > 0 for stage in result["stages"])
    refused = server.run_code("cpp", "int main() { return x; }\n")
    assert [stage["name"] for stage in refused["stages"]] == ["compile"]
    assert refused["reason"] == "exit"


def test_the_compiler_is_ended_too(lab, identity):
    """A compile that takes too long is a timeout that says which stage it was."""
    runner = lab.runner(identity)
    slow = "#include <array>\n" + "template <int N> struct A { static constexpr auto f() { std::array<int, 4096> a{}; for (int r = 0; r < 60; r++) " \
           "for (auto &x : a) x += N; return a[0]; } };\n" \
           + "".join(f"static_assert(A<{n}>::f() == {60 * n});\n" for n in range(1, 500)) + "int main() {}\n"
    result = runner.snippet("cpp", slow, 5, env={"SANDBOX_RUNNER_COMPILE_TIMEOUT": "1"})
    runner.close()
    assert (result["status"], result["exit_code"], result["reason"]) == ("timeout", None, "timeout"), result["stderr"][:500]
    assert "compile" in result["stderr"].splitlines()[0]
    assert result["duration_ms"] < 3000
