// A stock of objects that are dear to make and serve one thread at a time: it makes them when they are needed, at most
// one for each thread, lends them and takes them back.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace headrace::mujoco {

template <class T>
class Stock {
 public:
  // An object that a thread has borrowed, until this is destroyed.
  class Loan {
   public:
    Loan(Stock& stock, std::unique_ptr<T> thing) : stock_(stock), thing_(std::move(thing)) {}
    ~Loan() {  // an object that an error has left half done is not used again
      if (std::uncaught_exceptions() == exceptions_) stock_.give(std::move(thing_));
    }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    void discard() { thing_.reset(); }
    T* operator->() { return thing_.get(); }
    T& operator*() { return *thing_; }

   private:
    Stock& stock_;
    std::unique_ptr<T> thing_;
    int exceptions_ = std::uncaught_exceptions();
  };

  // make: () → std::unique_ptr<T>
  template <class Make>
  Loan borrow(Make make) {
    auto thing = take();
    return Loan(*this, thing ? std::move(thing) : make());
  }

  // Frees the objects that nobody has borrowed.
  void clear() {
    std::vector<std::unique_ptr<T>> freed;
    std::lock_guard lock(mutex_);
    freed.swap(idle_);
  }

 private:
  std::unique_ptr<T> take() {
    std::lock_guard lock(mutex_);
    if (idle_.empty()) return nullptr;
    auto thing = std::move(idle_.back());
    idle_.pop_back();
    return thing;
  }

  void give(std::unique_ptr<T> thing) {
    if (!thing) return;
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(thing));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> idle_;
};

}  // namespace headrace::mujoco
