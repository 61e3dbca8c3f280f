# What the site has beside the pages of docs/ (called by mkdocs, see mkdocs.yml):
#
# - README.md as the first page, CONTRIBUTING.md and CHANGELOG.md
# - keys.md, mpi-support.md and design/files.md, which scripts/site has put into the build directory
# - the files of the repository to which a page links
# - in the porting guides: the difference between two programs, made from the files
#
# SPDX-License-Identifier: BSD-3-Clause
import difflib
import os
import re

from mkdocs.structure.files import File
from pygments.formatters import HtmlFormatter

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MADE = os.path.join(os.environ["BUILD"], "site-pages")
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
LINK = re.compile(r"(\]\()([^)#\s]+)")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def in_nav(item):
    if isinstance(item, str):
        return {item}
    return set().union(*map(in_nav, item.values() if isinstance(item, dict) else item))


def on_config(config):
    """A new page of docs/ gets a place before somebody chooses a better one."""
    docs = config["docs_dir"]
    pages = {p for p in os.listdir(docs) if p.endswith(".md")}
    pages |= {"design/" + p for p in os.listdir(os.path.join(docs, "design")) if p.endswith(".md")}
    missing = pages - in_nav(config["nav"])
    if missing:
        config["nav"].append({"More": sorted(missing)})
    return config


def on_files(files, config):
    def add(path, folder):
        if not files.get_file_from_path(path):
            files.append(File(path, folder, config["site_dir"], config["use_directory_urls"]))

    for page in PAGES:
        add(page, TOP)
    for page in ("keys.md", "mpi-support.md", "design/files.md"):
        add(page, MADE)
    add("site.css", os.path.dirname(os.path.abspath(__file__)))
    for page in files.documentation_pages():
        for path in re.findall(r"\]\(\.\./([^)#\s]+)", read(page.abs_src_path)):
            if os.path.isfile(os.path.join(TOP, path)):
                add(path, TOP)
    return files


def difference(match):
    """The fewest lines that turn one program into the other, with all that stays."""
    texts = [read(os.path.join(TOP, name)).splitlines() for name in match.groups()]
    lines = list(difflib.unified_diff(*texts, *match.groups(), n=len(texts[0]), lineterm=""))
    return "```diff\n" + "\n".join(lines[:2] + lines[3:]) + "\n```"


def on_page_markdown(markdown, page, config, files):
    """In the site the pages of the top folder lie beside those of docs/."""
    if page.file.src_path in PAGES:
        prefix, short = "docs/", ""
    elif "/" in page.file.src_path:
        prefix, short = "../../", "../"
    else:
        prefix, short = "../", ""
    markdown = LINK.sub(
        lambda m: m[1] + (short + m[2][len(prefix) :] if m[2].startswith(prefix) else m[2]), markdown
    )
    markdown = markdown.replace("```message\n", "```{ .text .message }\n")
    return re.sub(r"<!-- difference: (\S+) (\S+) -->", difference, markdown)


def on_post_build(config):
    with open(os.path.join(config["site_dir"], "highlight.css"), "w", encoding="utf-8") as f:
        f.write(HtmlFormatter(style="default").get_style_defs(".codehilite") + "\n")
    for name in ("sitemap.xml", "sitemap.xml.gz"):  # without the site's address they say nothing
        os.remove(os.path.join(config["site_dir"], name))
