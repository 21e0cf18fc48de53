/*
 * Owns the screen while it is shown: raw keys, the alternate screen, a hidden cursor. Promises to
 * give all three back on every way out. A server that is away for a while is told in the last line,
 * and the view goes on.
 */
#include "command/view.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "command/names.h"
#include "command/report.h"
#include "command/show.h"

#define ENTER_SCREEN   "\033[?1049h\033[?25l"
#define LEAVE_SCREEN   "\033[?25h\033[?1049l"
#define HOME           "\033[H"
#define CLEAR_TO_RIGHT "\033[K\r\n"
#define CLEAR_BELOW    "\033[J"
#define BAR_WIDTH      10
#define NAMES_SHARE    20 /* new names are looked for so seldom that it takes 1/20 of the time */
#define SCREEN_BYTES   65536

struct view {
    const struct config *config;
    struct observer *observer;
    struct observed *observed;
    struct names names;
    int64_t names_at_ms; /* when to look for new names */
    struct termios before;
    int signals_fd;
    sigset_t mask_before;
    size_t rows;
    size_t columns;
    struct show_shape shape; /* of a row behind its bar */
    char screen[SCREEN_BYTES];
};

static void read_size(struct view *view)
{
    struct winsize size;
    view->rows = 24;
    view->columns = 80;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0) {
        view->rows = size.ws_row;
        view->columns = size.ws_col;
    }
    size_t bar = BAR_WIDTH + 3;
    view->shape = show_shape_for(view->columns > bar + 1 ? view->columns - bar - 1 : 1);
}

static void write_all(const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t written = write(STDOUT_FILENO, bytes, length);
        if (written < 0 && errno != EINTR)
            return;
        bytes += written > 0 ? written : 0;
        length -= written > 0 ? (size_t)written : 0;
    }
}

static bool open_screen(struct view *view)
{
    sigset_t shown;
    sigemptyset(&shown);
    sigaddset(&shown, SIGINT);
    sigaddset(&shown, SIGTERM);
    sigaddset(&shown, SIGHUP);
    sigaddset(&shown, SIGQUIT);
    sigaddset(&shown, SIGWINCH);
    if (tcgetattr(STDIN_FILENO, &view->before) != 0)
        return false;
    sigprocmask(SIG_BLOCK, &shown, &view->mask_before);
    view->signals_fd = signalfd(-1, &shown, SFD_CLOEXEC | SFD_NONBLOCK);
    struct termios raw = view->before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    raw.c_cc[VSUSP] = _POSIX_VDISABLE; /* stopped, it would leave the shell on our screen */
    if (view->signals_fd < 0 || tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0)
        return false;
    write_all(ENTER_SCREEN, strlen(ENTER_SCREEN));
    return true;
}

static void close_screen(const struct view *view)
{
    write_all(LEAVE_SCREEN, strlen(LEAVE_SCREEN));
    tcsetattr(STDIN_FILENO, TCSANOW, &view->before);
    close(view->signals_fd);
    sigprocmask(SIG_SETMASK, &view->mask_before, NULL);
}

/* Adds a line, cut to the width of the screen. */
static void add_line(const struct view *view, struct text *screen, const char *line)
{
    size_t columns;
    text_add_bytes(screen, line, show_fit(line, view->columns - 1, &columns));
    text_add(screen, CLEAR_TO_RIGHT);
}

/* "[######----] " for the time left of the lease; blanks where there is none. */
static void add_bar(struct text *row, const struct observed *observed)
{
    const struct observed_holder *holder = &observed->holders[0];
    int64_t full = observed->holder_count > 0 ? holder->holder.ttl_ms : 0;
    if (full <= 0 || holder->left_ms < 0) {
        text_addf(row, "%*s", BAR_WIDTH + 3, "");
        return;
    }
    int64_t filled = holder->left_ms * BAR_WIDTH / full;
    text_add_char(row, '[');
    for (int64_t i = 0; i < BAR_WIDTH; i++)
        text_add_char(row, i < filled ? '#' : '-');
    text_add(row, "] ");
}

static enum lock_result draw_row(const struct view *view, struct text *screen, size_t i,
                                 struct gaps *gaps)
{
    const char *name = view->names.at[i].text;
    char storage[SHOW_ROW_MAX + BAR_WIDTH];
    struct text row = TEXT_OVER(storage);
    struct deadline deadline = {clock_boot_ms() + view->config->watch_ms, -1};
    enum lock_result result = observer_look(view->observer, name, view->observed, &deadline);
    if (result == LOCK_NOT_A_LOCK)
        return LOCK_OK;
    if (result == LOCK_UNAVAILABLE) {
        names_miss(&view->names, i, view->observer, gaps);
        return LOCK_OK;
    }
    if (result != LOCK_OK)
        return result;
    add_bar(&row, view->observed);
    show_add_row(&row, &view->shape, name, view->observed);
    add_line(view, screen, row.at);
    return LOCK_OK;
}

static enum lock_result read_names(struct view *view)
{
    struct names fresh;
    int64_t began = clock_boot_ms();
    if (began < view->names_at_ms)
        return LOCK_OK;
    enum lock_result result = names_collect(&fresh, view->observer, view->config->pattern, NULL,
                                            view->config->connect_timeout_ms);
    if (result != LOCK_OK) {
        names_free(&fresh);
        return result;
    }
    names_free(&view->names);
    view->names = fresh;
    int64_t now = clock_boot_ms();
    bool whole = fresh.gaps.result == LOCK_OK; /* a node that is away may come back soon */
    view->names_at_ms = now + (now - began) * (whole ? NAMES_SHARE : 1);
    return LOCK_OK;
}

static void add_title(const struct view *view, struct text *screen)
{
    char storage[SHOW_ROW_MAX];
    struct text title = TEXT_OVER(storage);
    text_addf(&title, "redislock: %zu locks under '%s'; q quits", view->names.count,
              view->config->prefix);
    add_line(view, screen, title.at);
    title = TEXT_OVER(storage);
    text_addf(&title, "%*s", BAR_WIDTH + 3, "");
    show_add_row_head(&title, &view->shape);
    add_line(view, screen, title.at);
}

static void add_reason(const struct view *view, struct text *screen, const char *reason)
{
    char storage[SHOW_ROW_MAX];
    struct text why = TEXT_OVER(storage);
    text_add_visible(&why, reason, strlen(reason));
    add_line(view, screen, why.at);
}

/* Draws everything in one write. Returns the first thing that went wrong; it is shown as well. */
static enum lock_result draw(struct view *view)
{
    struct text screen = TEXT_OVER(view->screen);
    read_size(view);
    enum lock_result result = read_names(view);
    text_add(&screen, HOME);
    add_title(view, &screen);
    size_t room = view->rows > 4 ? view->rows - 4 : 1;
    size_t shown = view->names.count < room ? view->names.count : room;
    struct gaps gaps = view->names.gaps;
    for (size_t i = 0; i < shown && result == LOCK_OK; i++) {
        if (gaps.lost[view->names.at[i].node])
            continue;
        names_announce(&view->names, i, shown, &gaps, view->observer);
        result = draw_row(view, &screen, i, &gaps);
    }
    if (view->names.count > room)
        add_line(view, &screen, "…");
    if (result != LOCK_OK)
        add_reason(view, &screen, observer_why(view->observer));
    else if (gaps.result != LOCK_OK)
        add_reason(view, &screen, gaps.why);
    text_add(&screen, CLEAR_BELOW);
    write_all(screen.at, screen.length);
    return result;
}

/* Waits for the next redraw. 0: draw; -1: q; else the signal that ends the view. */
static int wait_for_input(const struct view *view, int64_t until_ms)
{
    for (;;) {
        struct pollfd watched[2] = {{view->signals_fd, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
        if (poll(watched, 2, clock_poll_timeout(until_ms)) == 0)
            return 0;
        struct signalfd_siginfo info;
        if (read(view->signals_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
            return info.ssi_signo == SIGWINCH ? 0 : (int)info.ssi_signo;
        char key;
        if (watched[1].revents != 0 && (read(STDIN_FILENO, &key, 1) != 1 || key == 'q'))
            return -1;
    }
}

int view_run(const struct config *config, struct observer *observer, struct observed *observed)
{
    static struct view view; /* large, and there is one */
    view = (struct view){.config = config, .observer = observer, .observed = observed};
    observer_ask_once(observer, true); /* each redraw asks again */
    enum lock_result result = read_names(&view);
    if (result == LOCK_UNAVAILABLE) { /* nothing can be drawn yet */
        observer_ask_once(observer, false);
        result = read_names(&view);
        observer_ask_once(observer, true);
    }
    if (result != LOCK_OK)
        return report_failure(config, observer_why(observer), result);
    if (!open_screen(&view)) {
        log_error("cannot use the terminal: %s", strerror(errno));
        return STATUS_OS;
    }
    int ended;
    do
        (void)draw(&view);
    while ((ended = wait_for_input(&view, clock_boot_ms() + config->watch_ms)) == 0);
    close_screen(&view);
    names_free(&view.names);
    return ended < 0 ? STATUS_OK : STATUS_SIGNAL + ended;
}
